# SPDX-License-Identifier: Apache-2.0
"""Handles: the kernels and the memory of a session, which it refers to by number."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic

import numpy as np

from ...lowering.kernel import K
from ...ops.tensor import encoded
from ..protocol import LibraryBuilder
from .session import DeviceLost, Session

_CHUNK = 16 << 20  # bytes per message


class SessionHandles(Generic[K]):
    """The kernels and the memory of one session, which a stage runner composes stages from.

    The session keeps both in a native object, see ``src/runtime/stage_runner.h``.

    Parameters
    ----------
    session : Session
        The process that runs the kernels.
    builder : LibraryBuilder
        Compiles the kernels.
    prefix : str
        What the names of the session's functions begin with.
    arguments
        Of the function that makes the native object.
    """

    def __init__(
        self, session: Session, builder: LibraryBuilder[K], prefix: str, *arguments: object
    ) -> None:
        self._session, self._builder, self._prefix = session, builder, prefix
        self._native = self._guarded("NewStageRunner", *arguments)
        self._numbers: dict[Hashable, list[int]] = {}

    def memory(self, num_bytes: int) -> int:
        """Allocate memory and return its number."""
        return int(self._call("AddMemory", num_bytes))

    def write(self, memory: int, array: np.ndarray) -> None:
        """Copy an array to the beginning of a memory."""
        content = np.ascontiguousarray(array).reshape(-1).view("uint8").data
        for begin in range(0, len(content), _CHUNK):
            self._call("WriteMemory", memory, begin, bytes(content[begin : begin + _CHUNK]))

    def fill(self, memory: int, array: np.ndarray) -> None:
        """Fill a memory with copies of an array."""
        self._call("FillMemory", memory, array.tobytes())

    def _call(self, name: str, *arguments: object) -> Any:
        return self._guarded(name, self._native, *arguments)

    def _guarded(self, name: str, *arguments: object) -> Any:
        """Call a function of the session."""
        return self._session.call(self._prefix + name, *arguments)

    def _number(self, kernel: K, phase: int = 0) -> int:
        """Return the number of a kernel's phase; load the kernel if necessary."""
        if kernel.key not in self._numbers:
            library = self._builder.library(kernel)
            module = self._session.load(library)
            specs = np.array([n for spec in kernel.tensors for n in encoded(spec)], "int64")
            self._numbers[kernel.key] = [
                self._call("AddKernel", module, name, specs.tobytes())
                for name in library.names[kernel.key]
            ]
        return self._numbers[kernel.key][phase]


def floats(answer: object) -> np.ndarray:
    """Decode the float64 numbers that a device answered; raise DeviceLost for any other answer."""
    if not isinstance(answer, (bytes, bytearray)) or len(answer) % 8:
        raise DeviceLost(f"it answered a {type(answer).__name__} where float64 numbers belong")
    return np.frombuffer(answer, "float64")
