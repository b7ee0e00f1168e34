# SPDX-License-Identifier: Apache-2.0
"""The first elements of a vector in memory, as many as a number that is known at run time.

The end of an open row is computed so: elements behind it are neither read nor written. The
functions here are LLVM IR of our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

from .functions import keep, lanes_in

Expr = Any

_LOAD, _STORE = "tvm_ios_load_first", "tvm_ios_store_first"


def load_first(tensor: Any, place: Sequence[Expr], count: Expr, lanes: int) -> Expr:
    """Return ``lanes`` elements of float32, of which those behind the first ``count`` are 0."""
    pointer = _pointer(tensor, "r", place)
    return T.call_pure_extern(f"float32x{lanes}", _LOAD, pointer, count)


def store_first(tensor: Any, value: Expr, place: Sequence[Expr], count: Expr) -> None:
    """Store the first ``count`` elements of a vector of float32."""
    pointer = _pointer(tensor, "w", place)
    T.evaluate(T.call_extern("int32", _STORE, pointer, count, value))


@dataclass(frozen=True, eq=False)
class Masked:
    """A buffer of float32 of whose vectors the first ``count`` elements are read, and written.

    It is written by :func:`~.storage.store`.
    """

    buffer: Any
    count: Expr

    def __getitem__(self, place: Any) -> Expr:
        indices = list(place) if isinstance(place, tuple) else [place]
        last = indices[-1]
        if not isinstance(last, tirx.Ramp):
            return self.buffer[place]
        return load_first(self.buffer, [*indices[:-1], last.base], self.count, int(last.lanes))

    def store(self, value: Expr, place: Sequence[Expr]) -> None:
        """Store the first elements of a vector."""
        *before, last = place
        store_first(self.buffer, value, [*before, last.base], self.count)


def masked(buffers: Sequence[Any], count: Expr | None) -> list[Any]:
    """Return buffers of whose vectors the first ``count`` elements exist, or all if it is None."""
    return list(buffers) if count is None else [Masked(buffer, count) for buffer in buffers]


def first_of(value: Expr, count: Expr, otherwise: Expr) -> Expr:
    """Return a vector, whose elements behind the first ``count`` are those of another one."""
    lanes = lanes_in(value)
    inside = T.Ramp(T.int32(0), 1, lanes) < T.Broadcast(count, lanes)
    return T.Select(inside, keep(value), otherwise)


def masked_source(lanes: int) -> str:
    """Return the LLVM IR of what :func:`load_first` and :func:`store_first` call."""
    vector, mask, name = f"<{lanes} x float>", f"<{lanes} x i1>", f"v{lanes}f32.p0"
    load, store = f"@llvm.masked.load.{name}", f"@llvm.masked.store.{name}"
    numbers = ", ".join(f"i32 {lane}" for lane in range(lanes))
    condition = f"""\
  %one = insertelement <{lanes} x i32> poison, i32 %count, i32 0
  %all = shufflevector <{lanes} x i32> %one, <{lanes} x i32> poison, <{lanes} x i32> zeroinitializer
  %mask = icmp slt <{lanes} x i32> <{numbers}>, %all"""
    return f"""
declare {vector} {load}(ptr, i32, {mask}, {vector})
declare void {store}({vector}, ptr, i32, {mask})
define internal {vector} @{_LOAD}(ptr %place, i32 %count) alwaysinline {{
{condition}
  %value = call {vector} {load}(ptr %place, i32 4, {mask} %mask, {vector} zeroinitializer)
  ret {vector} %value
}}
define internal i32 @{_STORE}(ptr %place, i32 %count, {vector} %value) alwaysinline {{
{condition}
  call void {store}({vector} %value, ptr %place, i32 4, {mask} %mask)
  ret i32 0
}}
"""


def _pointer(tensor: Any, access: str, place: Sequence[Expr]) -> Expr:
    (offset,) = tensor.offset_of(list(place))
    return tensor.access_ptr(access, offset=offset)
