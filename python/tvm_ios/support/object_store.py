# SPDX-License-Identifier: Apache-2.0
"""Object code of kernels that was compiled before, in a directory that processes share.

Small records are kept beside it: which object code a kernel has, and the digest of our own code.

An object is named for all that it was made from. It has a file of its own, which takes its place in
one step and begins with a digest of its name and its content: a file that is damaged, or was made
for another name, counts as none. So does one that another user but root has made or may write to,
as it becomes a part of what this user runs. Whatever fails here costs the time to compile again,
and nothing else.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import logging
import os
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .files import replacing

_logger = logging.getLogger(__name__)

LIMIT = 1 << 30
"""Bytes that objects may take; beyond, those that were not used for longest are removed."""

_KEPT = 0.8  # of the limit, after a removal
_DIGEST = 32  # bytes
_SUFFIX = ".object"
_PRIVATE, _OWN = 0o700, 0o600  # modes of what is made, whatever the umask


@dataclass(frozen=True)
class Usage:
    """What a store holds.

    Attributes
    ----------
    objects : int
    num_bytes : int
    """

    objects: int
    num_bytes: int


class ObjectStore:
    """A directory of objects.

    Parameters
    ----------
    directory : Path or None
        None keeps nothing.
    limit : int
        Bytes.
    """

    def __init__(self, directory: Path | None, limit: int = LIMIT) -> None:
        self.directory, self.limit = directory, limit
        self._written = 0  # bytes since the last look at the whole
        self._looked = self._told = False
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes | None:
        """Return the object of a key; None if there is none, or its file cannot be trusted."""
        if self.directory is None or not self._is_private():
            return None
        path = self._path(key)
        try:
            with path.open("rb") as file:
                private = _is_private(os.fstat(file.fileno()))
                content = file.read() if private else b""
        except OSError:
            return None
        body = content[_DIGEST:]
        if _digest(key, body) != content[:_DIGEST]:
            what = "damaged" if private else "another user's, or others may write to it"
            _logger.warning("%s is %s; what it held is made again.", path, what)
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # it was used now
        return body

    def put(self, key: str, content: bytes) -> None:
        """Keep an object; a directory that cannot be written costs nothing but time."""
        if self.directory is None:
            return
        path = self._path(key)
        try:
            self.directory.mkdir(_PRIVATE, parents=True, exist_ok=True)
            if not self._is_private():
                return
            path.parent.mkdir(_PRIVATE, exist_ok=True)
            with replacing(path) as (draft,):
                draft.write_bytes(_digest(key, content) + content)
                draft.chmod(_OWN)
        except OSError as error:
            _logger.info("An object is not kept: %s", error)
            return
        with self._lock:  # several threads compile
            self._written += len(content)
            if not self._looked or self._written > self.limit // 8:
                self._looked, self._written = True, 0
                if self.usage().num_bytes > self.limit:
                    self.prune(int(_KEPT * self.limit))

    def usage(self) -> Usage:
        """Return how much there is."""
        sizes = [size for _, size, _ in self._files()]
        return Usage(len(sizes), sum(sizes))

    def prune(self, limit: int) -> Usage:
        """Remove objects, those unused for longest first, until the rest fits; return the rest."""
        files = sorted(self._files(), reverse=True)
        totals = itertools.accumulate(size for _, size, _ in files)
        kept = sum(total <= limit for total in totals)
        for _, _, path in files[kept:]:
            with contextlib.suppress(OSError):
                path.unlink()
        return Usage(kept, sum(size for _, size, _ in files[:kept]))

    def _is_private(self) -> bool:
        """Return whether the directory is one that only this user writes to; say once if not."""
        assert self.directory is not None, "a store that keeps nothing has no directory"
        with contextlib.suppress(OSError):
            if _is_private(self.directory.stat()):
                return True
            if not self._told:
                self._told = True
                _logger.warning(
                    "%s is another user's, or others may write to it, so that object code in it "
                    "cannot be trusted; make it your own (chown, chmod go-w), or name another.",
                    self.directory,
                )
        return False

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        """Yield the time of the last use, the size and the path of each object."""
        if self.directory is None:
            return
        for path in self.directory.glob(f"*/*{_SUFFIX}"):
            with contextlib.suppress(OSError):  # another process has removed it
                status = path.stat()
                yield status.st_mtime, status.st_size, path

    def _path(self, key: str) -> Path:
        assert self.directory is not None, "a store that keeps nothing has no files"
        return self.directory / key[:2] / f"{key[2:]}{_SUFFIX}"


def _is_private(status: os.stat_result) -> bool:
    """Return whether nobody but this user, and root, can have written a file or to a directory."""
    return status.st_uid in (os.geteuid(), 0) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _digest(key: str, content: bytes) -> bytes:
    digest = hashlib.sha256(f"{key}\0".encode())
    digest.update(content)
    return digest.digest()


@functools.cache
def shared_store(directory: Path | None) -> ObjectStore:
    """Return the store of a directory that this process uses.

    How much there is, is looked up when a store writes for the first time: for every file, which a
    process that compiles many networks would pay for each.
    """
    return ObjectStore(directory)
