# SPDX-License-Identifier: Apache-2.0
"""Files that appear whole or not at all, and together, also where a process is killed."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from .folders import LockedFolder
from .transaction import PREFIX, commit, revoke, settle, sync

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextlib.contextmanager
def replacing(*paths: str | os.PathLike[str]) -> Iterator[list[Path]]:
    """Temporary files beside ``paths``, which take their places when the block succeeds.

    They are made at once, so that a directory that cannot be written to is found out before the
    work and not after it. When the block fails or is interrupted, they are removed. They are on the
    disk before they take their places, have the mode of what was there, and where one of them
    cannot take its place the others give theirs back. Where the process is killed while they do,
    the next one that reads or writes there completes it, see :func:`.transaction.settle`.

    Yields
    ------
    list of Path
        Empty files to write to, in the order of ``paths`` and with the same names.

    Raises
    ------
    OSError
        Naming the path that cannot be written.
    """
    targets = [Path(path).resolve() for path in paths]
    with contextlib.ExitStack() as stack:
        folders: dict[Path, Path] = {}
        drafts = []
        for path, target in zip(paths, targets, strict=True):
            _check(path, target)
            if target.parent not in folders:
                folders[target.parent] = stack.enter_context(_folder(path, target.parent))
            drafts.append(folders[target.parent] / target.name)
            drafts[-1].touch(exist_ok=False)
        with _named(paths, drafts):
            yield drafts
            for draft, target in zip(drafts, targets, strict=True):
                if target.exists():
                    shutil.copymode(target, draft)
                sync(draft)
            if len(targets) > 1:
                commit(drafts, targets)
            _replace_all(drafts, targets)


@contextlib.contextmanager
def _named(paths: Sequence[str | os.PathLike[str]], drafts: Sequence[Path]) -> Iterator[None]:
    """Say of a full disk which file there is no room for."""
    try:
        yield
    except OSError as error:
        inside = [d for d in drafts if error.filename and d.parent in Path(error.filename).parents]
        if error.errno not in _FULL or not (inside or error.filename is None):
            raise
        unfinished = [p for p, d in zip(paths, drafts, strict=True) if error.filename == str(d)]
        path = (unfinished or list(paths))[0]
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


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
        revoke(drafts)
        raise
    for directory in {target.parent for target in targets}:
        sync(directory)


def _keep(path: Path, backup: Path) -> None:
    """Give a file a second name or, where that cannot be, a copy."""
    try:
        os.link(path, backup)
    except OSError:  # the file system has no links, or the file is another user's
        shutil.copy2(path, backup)


def _check(path: str | os.PathLike[str], target: Path) -> None:
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if target.exists() and not target.is_file():  # replacing it would destroy a device or a pipe
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))


def _folder(path: str | os.PathLike[str], parent: Path) -> LockedFolder:
    """Where drafts beside ``path`` lie; what a killed process has left there is dealt with."""
    settle(parent)
    try:
        return LockedFolder(parent, PREFIX)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from error
