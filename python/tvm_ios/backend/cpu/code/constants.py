# SPDX-License-Identifier: Apache-2.0
"""The constants of a network as data of its compiled library.

The constants are mapped together with the library's code: loading reads and copies nothing,
processes share one copy, and only the pages that are used take memory. As constants of a Relax
function they would be held several times over while TVM loads them. All constants are one piece of
data, because LLVM takes minutes to compile hundreds of constants that are passed as arguments.

The bytes bypass LLVM: they are written to a file that becomes object code, which is linked when the
module is exported or first run. The file is removed when the process ends; a forked process has
files of its own, which its parent does not remove. They are a module of their own, so that the code
that reads them is known again in another process.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tvm

from ....support.folders import TemporaryFolder, naming
from ..stage.stage import CpuStage
from .elf import ObjectFormat
from .memory import ALIGNMENT, aligned

_CODE = 4 << 20  # bytes of object code without constants, and of the linker's other output


@dataclass(frozen=True)
class Constants:
    """Arrays one after another in a file, behind room for the header of an object file.

    Attributes
    ----------
    offsets : dict of int to int
        Byte offset of each array, by the array's ``id``.
    path : Path
    num_bytes : int
    """

    offsets: Mapping[int, int]
    path: Path
    num_bytes: int

    @staticmethod
    def of(stages: Iterable[CpuStage]) -> Constants:
        """Write the constants that the kernels of ``stages`` read to a file.

        Raises
        ------
        OSError
            If there is no room for the file.
        """
        arrays = {
            id(value): value
            for stage in stages
            for implementation in stage.implementations
            for value in implementation.inputs
            if isinstance(value, np.ndarray)
        }
        # Each operator packs its own copy of shared weights, as in a recurrent network's steps.
        digests = {name: _digest(array) for name, array in arrays.items()}
        distinct = {digests[name]: array for name, array in arrays.items()}
        places, size = {}, 0
        for digest, array in distinct.items():
            places[digest] = size
            size += aligned(array.nbytes)
        offsets = {name: places[digest] for name, digest in digests.items()}
        return Constants(offsets, _write(distinct), size)

    def module(self, code: bytes) -> tvm.runtime.Module:
        """Return the data as a module, to be linked with the code that uses it.

        Parameters
        ----------
        code : bytes
            Any object code for the same target.
        """
        head, tail = ObjectFormat.of(code).around(self.symbol, self.num_bytes, ALIGNMENT)
        with _files.lock:  # equal constants for another target are in the same file
            with self.path.open("r+b") as file:
                file.write(head)
                file.seek(ALIGNMENT + self.num_bytes)
                file.write(tail)
            return tvm.runtime.load_static_library(str(self.path), [])

    @property
    def symbol(self) -> str:
        """The name of the data, which depends on its content."""
        return f"tvm_ios_constants_{self.path.name[:16]}"


def _bytes(array: np.ndarray) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view("uint8").data


def _digest(array: np.ndarray) -> bytes:
    return hashlib.sha256(_bytes(array)).digest()


class _Files:
    """The files of this process, in a folder that is made with the first and lives as long as it.

    Attributes
    ----------
    lock : threading.Lock
        To be held by whoever asks for the folder, and writes or reads a file in it.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._folder: TemporaryFolder | None = None

    def folder(self) -> Path:
        if self._folder is None:
            self._folder = TemporaryFolder()
        return self._folder.path


_files = _Files()


def _renew() -> None:
    """Give a forked process a folder of its own, and a lock that no thread of its parent holds."""
    global _files
    _files = _Files()


os.register_at_fork(after_in_child=_renew)


def _write(arrays: Mapping[bytes, np.ndarray]) -> Path:
    """Write ``arrays``, by their digests, to a file, each at a multiple of the alignment.

    Equal contents yield one file, which is not replaced: another thread may be reading it.
    """
    name = hashlib.sha256(b"".join(arrays)).hexdigest()
    with _files.lock:
        folder = _files.folder()
        path = folder / name
        if path.exists():
            return path
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file, naming(folder):
            file.write(bytes(ALIGNMENT))
            for array in arrays.values():
                data = _bytes(array)
                file.write(data)
                file.write(bytes(aligned(data.nbytes) - data.nbytes))
            file.flush()
            _check_room(folder, file.tell())
        return Path(file.name).rename(path)


def _check_room(folder: Path, num_bytes: int) -> None:
    """Raise OSError unless the file that is linked, which holds the constants again, fits, too."""
    if shutil.disk_usage(folder).free < num_bytes + _CODE:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
