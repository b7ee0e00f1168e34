# SPDX-License-Identifier: Apache-2.0
"""The constants of a network as data of its compiled library.

They are mapped with the library's code: nothing is read or copied when it is loaded, processes
share one copy, and only what is used takes memory. As constants of a Relax function they would be
held several times over while TVM loads them. And they are one piece: hundreds of constants as
arguments take LLVM minutes.

The bytes go past LLVM, from a file into the object code, when the module is exported or first run;
the file is removed when the process ends.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import tirx
from tvm.tirx.script import builder as T

from ....support.folders import TemporaryFolder, naming
from .memory import ALIGNMENT, aligned
from .region import LoweredStage

_CODE = 4 << 20  # bytes of object code without constants, and of what else the linker writes
_FUNCTION = "tvm_ios_constant"


@dataclass(frozen=True)
class Constants:
    """Arrays one after another in a file.

    Attributes
    ----------
    offsets : dict of int to int
        By ``id`` of an array, the byte at which it lies.
    path : Path
    num_bytes : int
    """

    offsets: Mapping[int, int]
    path: Path
    num_bytes: int

    @staticmethod
    def of(stages: Iterable[LoweredStage]) -> Constants:
        """The constants that the kernels of ``stages`` read.

        Raises
        ------
        OSError
            When there is no room for the file.
        """
        arrays = {
            id(value): value
            for stage in stages
            for implementation in stage.implementations
            for value in implementation.inputs
            if isinstance(value, np.ndarray)
        }
        # What several operators read, as the steps of a recurrent network do, is packed for each.
        digests = {name: _digest(array) for name, array in arrays.items()}
        distinct = {digests[name]: array for name, array in arrays.items()}
        places, size = {}, 0
        for digest, array in distinct.items():
            places[digest] = size
            size += aligned(array.nbytes)
        offsets = {name: places[digest] for name, digest in digests.items()}
        return Constants(offsets, _write(distinct), size)

    @contextmanager
    def linked(self) -> Iterator[None]:
        """What is emitted inside may ask for a :meth:`pointer`."""
        if not self.num_bytes:
            yield
            return
        source = tvm.ir.StringImm(_llvm_ir(self.path, self.num_bytes))
        with T.attr(tirx.const(0, "int32"), "pragma_import_llvm", source):
            yield

    def pointer(self, offset: int) -> Any:
        """The address of the byte ``offset``, in TIR."""
        return T.call_extern("handle", _FUNCTION, tirx.const(offset, "int64"))


def _bytes(array: np.ndarray) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view("uint8").data


def _digest(array: np.ndarray) -> bytes:
    return hashlib.sha256(_bytes(array)).digest()


def _write(arrays: Mapping[bytes, np.ndarray]) -> Path:
    """A file of ``arrays``, by their digests, each at a multiple of the alignment.

    Files of equal contents are one.
    """
    name = hashlib.sha256(b"".join(arrays)).hexdigest()
    folder = _directory().path
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file, naming(folder):
        for array in arrays.values():
            data = _bytes(array)
            file.write(data)
            file.write(bytes(aligned(data.nbytes) - data.nbytes))
        file.flush()
        _check_room(folder, file.tell())
    return Path(file.name).rename(Path(file.name).with_name(name))


def _check_room(folder: Path, num_bytes: int) -> None:
    """Raise OSError unless the object code fits beside the constants, which it holds again.

    LLVM ends the process where it does not.
    """
    if shutil.disk_usage(folder).free < num_bytes + _CODE:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@functools.cache
def _directory() -> TemporaryFolder:
    """Where the files are while this process lives."""
    return TemporaryFolder()


def _llvm_ir(path: Path, num_bytes: int) -> str:
    """A function of an offset, and the data; the label is local to the object file.

    TVM links it into a module once for every function that asks for it.
    """
    assembly = (
        ".ifndef tvm_ios_constants",
        ".section .rodata.tvm_ios,\\22a\\22,@progbits",
        f".p2align {ALIGNMENT.bit_length() - 1}",
        "tvm_ios_constants:",
        f".incbin \\22{_escaped(path)}\\22",
        ".previous",
        ".endif",
    )
    return "\n".join(
        [
            *(f'module asm "{line}"' for line in assembly),
            f"@tvm_ios_constants = external dso_local constant [{num_bytes} x i8], "
            f"align {ALIGNMENT}",
            f"define ptr @{_FUNCTION}(i64 %offset) {{",
            "  %place = getelementptr inbounds i8, ptr @tvm_ios_constants, i64 %offset",
            "  ret ptr %place",
            "}",
        ]
    )


def _escaped(path: Path) -> str:
    """A path in a string of assembly in a string of LLVM."""
    return "".join(
        c if c.isalnum() or c in "/._-" else "".join(f"\\5C{b:03o}" for b in c.encode())
        for c in str(path)
    )
