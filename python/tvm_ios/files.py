# SPDX-License-Identifier: Apache-2.0
"""Files that appear whole or not at all, and folders that are gone in the end."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path


@contextlib.contextmanager
def replacing(*paths: str | os.PathLike[str]) -> Iterator[list[Path]]:
    """Temporary files beside ``paths``, which take their places when the block succeeds.

    They are made at once, so that a directory that cannot be written to is found out before the
    work and not after it. When the block fails or is interrupted, they are removed. They are on the
    disk before they take their places, have the mode of what was there, and where one of them
    cannot take its place the others give theirs back.

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
            if target.exists():
                shutil.copymode(target, draft)
            _sync(draft)
        _replace_all(drafts, targets)
    finally:
        for draft in drafts:
            draft.unlink(missing_ok=True)


def _replace_all(drafts: Sequence[Path], targets: Sequence[Path]) -> None:
    """Put all drafts in their places, or none of them."""
    kept = [draft.with_name(f"{draft.name}.before") for draft in drafts]
    done: list[tuple[Path, Path]] = []
    try:
        for draft, target, backup in zip(drafts, targets, kept, strict=True):
            if len(targets) > 1 and target.is_file():
                _keep(target, backup)
            os.replace(draft, target)
            done.append((target, backup))
    except BaseException:
        for target, backup in done:
            if backup.exists():
                os.replace(backup, target)
            else:
                target.unlink()
        raise
    finally:
        for backup in kept:
            backup.unlink(missing_ok=True)
    for directory in {target.parent for target in targets}:
        _sync(directory)


def _keep(path: Path, backup: Path) -> None:
    """Give a file a second name or, where that cannot be, a copy."""
    try:
        os.link(path, backup)
    except OSError:  # the file system has no links, or the file is another user's
        shutil.copy2(path, backup)


def _sync(path: Path) -> None:
    """Wait until what was written to a file or directory is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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


class TemporaryFolder:
    """A directory that is removed with this object, or at the end of the process that made it.

    A process that was forked from that one leaves it where it is.

    Attributes
    ----------
    path : Path
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="tvm-ios-"))
        self._finalizer = weakref.finalize(self, _remove, self.path, os.getpid())


def _remove(path: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
