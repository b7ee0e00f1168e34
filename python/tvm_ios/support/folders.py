# SPDX-License-Identifier: Apache-2.0
"""Temporary folders that are removed by whoever made them or, where that was killed, by others.

Whoever makes a folder holds a lock on it, which the system takes back when the process ends,
however it does. A folder whose lock can be had is nobody's. Where a file system has no locks,
nothing is removed that another process has made.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_SUFFIX = ".tmp"
_FREE, _TAKEN, _UNKNOWN = range(3)
_NO_LOCKS = {errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}


class LockedFolder:
    """A new folder that is removed with this object, or at the end of the process that made it.

    A process that was forked from that one leaves it where it is; others do, too, meanwhile.

    Parameters
    ----------
    parent : Path
        What processes that were killed have left there, by the same prefix, is not looked for: see
        :func:`abandoned`.
    prefix : str

    Attributes
    ----------
    path : Path
    """

    def __init__(self, parent: Path, prefix: str) -> None:
        self.path, descriptor = _make(parent, prefix)
        self._finalizer = weakref.finalize(self, _remove, self.path, descriptor, os.getpid())

    def remove(self) -> None:
        """Remove it now."""
        self._finalizer()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()


class TemporaryFolder(LockedFolder):
    """One among the temporary files of the system; those of killed processes are removed."""

    _PREFIX = "tvm-ios-"

    def __init__(self) -> None:
        parent = Path(tempfile.gettempdir())
        for folder in abandoned(parent, self._PREFIX):
            shutil.rmtree(folder, ignore_errors=True)
        super().__init__(parent, self._PREFIX)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name ``path`` in errors of the system that name no file, as those of writing do."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def abandoned(parent: Path, prefix: str) -> Iterator[Path]:
    """This user's folders in ``parent`` whose process has ended; each is locked for the caller."""
    try:
        with os.scandir(parent) as entries:
            names = [e.name for e in entries if e.name.startswith(prefix)]
    except OSError:  # it cannot be read, nor is there anything to do then
        return
    for name in names:
        path = parent / name
        if path.suffix == _SUFFIX:
            with locked(path) as mine:
                if mine:
                    yield path


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Whether a folder is this user's and nobody's else, which it stays meanwhile."""
    descriptor = None
    try:
        with suppress(OSError):  # it has just been removed, or is another user's
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        yield (
            descriptor is not None
            and os.fstat(descriptor).st_uid == os.geteuid()
            and _lock(descriptor) == _FREE
            and _is_at(descriptor, path)
        )
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _make(parent: Path, prefix: str) -> tuple[Path, int]:
    """A new folder and its lock; another process may remove it before the lock is there."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=prefix, suffix=_SUFFIX, dir=parent))
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        if _lock(descriptor) != _TAKEN and _is_at(descriptor, path):
            return path, descriptor
        os.close(descriptor)


def _lock(descriptor: int) -> int:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _TAKEN
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return _UNKNOWN
        raise
    return _FREE


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether what was opened is still there."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _remove(path: Path, descriptor: int, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)
