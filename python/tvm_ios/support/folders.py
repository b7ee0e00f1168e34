# SPDX-License-Identifier: Apache-2.0
"""Temporary folders that are removed by their creator or, if that was killed, by others.

The creator of a folder holds a lock on it, which the system releases whenever the process ends. A
folder whose lock is free is abandoned. On a file system without locks, folders of other processes
are not removed.
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
    """A new folder that is removed with this object, or at the end of the process that created it.

    Forked processes and other processes leave it alone.

    Parameters
    ----------
    parent : Path
        The directory that will contain the folder. Abandoned folders in it are not removed: see
        :func:`abandoned`.
    prefix : str
        The beginning of the folder's name.

    Attributes
    ----------
    path : Path
        The folder.
    """

    def __init__(self, parent: Path, prefix: str) -> None:
        self.path, descriptor = _make(parent, prefix)
        self._finalizer = weakref.finalize(self, _remove, self.path, descriptor, os.getpid())

    def remove(self) -> None:
        """Remove the folder now."""
        self._finalizer()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()


class TemporaryFolder(LockedFolder):
    """A locked folder in the system's temporary directory; abandoned ones there are removed."""

    _PREFIX = "tvm-ios-"

    def __init__(self) -> None:
        parent = Path(tempfile.gettempdir())
        for folder in abandoned(parent, self._PREFIX):
            shutil.rmtree(folder, ignore_errors=True)
        super().__init__(parent, self._PREFIX)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add ``path`` to system errors that name no file, such as errors of writing."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def abandoned(parent: Path, prefix: str) -> Iterator[Path]:
    """Yield this user's folders in ``parent`` whose process has ended; each is locked meanwhile.

    Parameters
    ----------
    parent : Path
        The directory to search.
    prefix : str
        The beginning of the folders' names.
    """
    try:
        with os.scandir(parent) as entries:
            names = [e.name for e in entries if e.name.startswith(prefix)]
    except OSError:  # an unreadable directory needs no cleaning up
        return
    for name in names:
        path = parent / name
        if path.suffix == _SUFFIX:
            with locked(path) as mine:
                if mine:
                    yield path


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Lock a folder inside the ``with`` block; yield whether it is this user's and was free."""
    descriptor = None
    try:
        with suppress(OSError):  # just removed, or another user's
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
    """Create a folder and lock it; retry if another process removes it before it is locked."""
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
    """Return whether the opened folder still exists at ``path``."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _remove(path: Path, descriptor: int, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)
