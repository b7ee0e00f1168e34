# SPDX-License-Identifier: Apache-2.0
"""The constants of a network as data of its compiled library.

The constants are mapped together with the library's code: loading reads and copies nothing,
processes share one copy, and only the pages that are used take memory. As constants of a Relax
function they would be held several times over while TVM loads them. All constants are one piece of
data, because LLVM takes minutes to compile hundreds of constants that are passed as arguments.

The bytes bypass LLVM: the assembler includes them from a file when the module is exported or first
run. The file is removed when the process ends.
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
from ..stage.stage import CpuStage
from .memory import ALIGNMENT, aligned

_CODE = 4 << 20  # bytes of object code without constants, and of the linker's other output
_FUNCTION = "tvm_ios_constant"


@dataclass(frozen=True)
class Constants:
    """Arrays one after another in a file.

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

    @contextmanager
    def linked(self) -> Iterator[None]:
        """Link the constants into functions emitted inside, which may then use :meth:`pointer`."""
        if not self.num_bytes:
            yield
            return
        source = tvm.ir.StringImm(_llvm_ir(self.path, self.num_bytes))
        with T.attr(tirx.const(0, "int32"), "pragma_import_llvm", source):
            yield

    def pointer(self, offset: int) -> Any:
        """Return the address of the byte ``offset``, as TIR."""
        return T.call_extern("handle", _FUNCTION, tirx.const(offset, "int64"))


def _bytes(array: np.ndarray) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view("uint8").data


def _digest(array: np.ndarray) -> bytes:
    return hashlib.sha256(_bytes(array)).digest()


def _write(arrays: Mapping[bytes, np.ndarray]) -> Path:
    """Write ``arrays``, by their digests, to a file, each at a multiple of the alignment.

    Equal contents yield one file.
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
    """Raise OSError unless the object code, which holds the constants again, fits into the folder.

    LLVM would end the process.
    """
    if shutil.disk_usage(folder).free < num_bytes + _CODE:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@functools.cache
def _directory() -> TemporaryFolder:
    """Return the directory of the files, which lives as long as this process."""
    return TemporaryFolder()


def _llvm_ir(path: Path, num_bytes: int) -> str:
    """Return LLVM IR of the data and of a function that maps an offset to its address.

    The label is local to the object file. TVM links the code into a module once for every function
    that uses it.
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
    """Escape a path for a string of assembly inside a string of LLVM IR."""
    return "".join(
        c if c.isalnum() or c in "/._-" else "".join(f"\\5C{b:03o}" for b in c.encode())
        for c in str(path)
    )
