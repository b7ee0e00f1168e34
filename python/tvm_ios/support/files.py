# SPDX-License-Identifier: Apache-2.0
"""Atomic replacement of one or several files, even if the process is killed."""

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
    """Provide temporary files that replace ``paths`` when the block succeeds.

    The temporary files are created at once, so that an unwritable directory is reported before the
    work and not after it. If the block fails or is interrupted, they are removed. They are flushed
    to disk before they replace the targets, and get the targets' modes. If one file cannot be
    replaced, the others are restored. If the process is killed while it replaces them, the next
    process that reads or writes there completes the replacement; see :func:`.transaction.settle`.

    Yields
    ------
    list of Path
        Empty files to write to, in the order of ``paths`` and with the same names.

    Raises
    ------
    OSError
        If a path cannot be written; the error names it.
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
    """Name the file that did not fit in the error of a full disk."""
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
    """Replace all targets by their drafts, or none of them."""
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
    """Keep a file under a second name, or as a copy if links are impossible."""
    try:
        os.link(path, backup)
    except OSError:  # no hard links here, or another user's file
        shutil.copy2(path, backup)


def _check(path: str | os.PathLike[str], target: Path) -> None:
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if target.exists() and not target.is_file():  # never replace a device or a pipe
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))


def _folder(path: str | os.PathLike[str], parent: Path) -> LockedFolder:
    """Create the folder of drafts beside ``path``, after cleaning up after killed processes."""
    settle(parent)
    try:
        return LockedFolder(parent, PREFIX)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from error
