# SPDX-License-Identifier: Apache-2.0
"""Tensors whose float32 numbers are stored in reduced precision.

Kernels compute in float32. A :class:`Stored` buffer widens what they read, and :func:`store`
narrows what they write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tvm.tirx.script import builder as T

from ....ops.tir_function import tile_scope
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


@dataclass(frozen=True, eq=False)
class Stored:
    """A buffer of numbers in a format, read as float32, and written by :func:`store`."""

    buffer: Any
    format: Format

    def __getitem__(self, place: Any) -> Expr:
        return self.format.widened(self.buffer[place])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.buffer, name)


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
