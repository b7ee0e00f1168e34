# SPDX-License-Identifier: Apache-2.0
"""Tensors whose float32 numbers are stored in reduced precision.

Kernels compute in float32. A :class:`Stored` buffer widens what they read, and :func:`store`
narrows what they write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from tvm import tirx
from tvm.tirx.script import builder as T

from ....ops.tir_function import tile_scope
from .emit import splat
from .masked import Masked

Expr = Any


class Format(Protocol):
    """A format of numbers in memory.

    Formats are compared and hashed, as parts of the keys of kernels.
    """

    @property
    def dtype(self) -> str:
        """The type of tensors that hold it."""

    @property
    def num_bytes(self) -> int:
        """The size of a number."""

    @property
    def sources(self) -> frozenset[str]:
        """The LLVM IR of the functions that :meth:`narrowed` calls."""

    def widened(self, bits: Expr) -> Expr:
        """Return the float32 of stored numbers."""

    def narrowed(self, value: Expr) -> Expr:
        """Return what is stored of float32 numbers."""


@dataclass(frozen=True)
class Bytes:
    """The format of bytes that are moved as they are, by their distance from the lowest one.

    Attributes
    ----------
    dtype : str
        "int8" or "uint8".
    """

    dtype: str
    num_bytes: ClassVar[int] = 1
    sources: ClassVar[frozenset[str]] = frozenset()

    def widened(self, bits: Expr) -> Expr:
        return self._flipped(bits, "uint8")

    def narrowed(self, value: Expr) -> Expr:
        return self._flipped(value, self.dtype)

    def _flipped(self, value: Expr, dtype: str) -> Expr:
        lanes: int = value.ty.dtype.lanes
        cast = T.cast(value, dtype if lanes == 1 else f"{dtype}x{lanes}")
        if self.dtype == "uint8":
            return cast
        return T.bitwise_xor(
            cast, splat(tirx.const(0x80 if dtype == "uint8" else -0x80, dtype), lanes)
        )


@dataclass(frozen=True, eq=False)
class Stored:
    """A buffer of numbers in a format, read as float32, and written by :func:`store`."""

    buffer: Any
    format: Format

    @property
    def dtype(self) -> str:
        """The type of the numbers that are read."""
        zero = T.cast(T.int32(0), self.format.dtype)
        return str(self.format.widened(zero).ty.dtype)

    def __getitem__(self, place: Any) -> Expr:
        return self.format.widened(self.buffer[place])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.buffer, name)


def viewed(buffer: Any, shape: Sequence[Any], strides: Sequence[Any] | None = None) -> Any:
    """Return the memory of a buffer in another shape, of the same numbers."""
    if isinstance(buffer, Stored):
        return Stored(viewed(buffer.buffer, shape, strides), buffer.format)
    return T.decl_buffer(tuple(shape), buffer.dtype, buffer.data, strides, layout=None)


def store(buffer: Any, value: Expr, place: Sequence[Expr]) -> None:
    """Write float32 numbers to a buffer, in its format if it is a stored one."""
    if isinstance(buffer, Masked):
        buffer.store(value, place)
        return
    if not isinstance(buffer, Stored):
        T.buffer_store(buffer, value, list(place))
        return
    with tile_scope():
        T.buffer_store(buffer.buffer, buffer.format.narrowed(value), list(place))
