# SPDX-License-Identifier: Apache-2.0
"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(*paths: str | os.PathLike[str]) -> Iterator[list[Path]]:
    """Temporary files beside ``paths``, which take their places when the block succeeds.

    They are made at once, so that a directory that cannot be written to is found out before the
    work and not after it. When the block fails or is interrupted, they are removed.

    Yields
    ------
    list of Path
        Empty files to write to, in the order of ``paths`` and with the same suffixes.

    Raises
    ------
    OSError
        Naming the path that cannot be written.
    """
    targets = [Path(path).resolve() for path in paths]
    drafts: list[Path] = []
    try:
        for path, target in zip(paths, targets, strict=True):
            drafts.append(_draft(path, target))
        yield drafts
        for draft, target in zip(drafts, targets, strict=True):
            os.replace(draft, target)
    finally:
        for draft in drafts:
            draft.unlink(missing_ok=True)


def _draft(path: str | os.PathLike[str], target: Path) -> Path:
    """A new file beside ``target``, with the permissions that new files have."""
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if target.exists() and not target.is_file():  # replacing it would destroy a device or a pipe
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    draft = target.with_name(f".{target.stem}.{secrets.token_hex(4)}{target.suffix}")
    try:
        draft.touch(exist_ok=False)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from error
    return draft
