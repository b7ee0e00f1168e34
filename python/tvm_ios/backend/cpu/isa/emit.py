# SPDX-License-Identifier: Apache-2.0
"""Helpers that the emitters of kernels share: vectors, accumulators in registers, column tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

from ....ops.tir_function import on_stack
from ....sizes.size import AnySize

Expr = Any


def lanes_of(base: Expr, lanes: int) -> Expr:
    """Return the index of ``lanes`` neighbouring elements from ``base``."""
    return base if lanes == 1 else T.Ramp(base, 1, lanes)


def splat(value: Expr, lanes: int) -> Expr:
    """Broadcast a scalar to every lane."""
    return value if lanes == 1 else T.Broadcast(value, lanes)


def shuffled(vectors: Sequence[Expr], elements: Sequence[int]) -> Expr:
    """Return elements of some vectors, which are counted on from one vector to the next."""
    if len(vectors) == 1 and list(elements) == list(range(len(elements))):
        return vectors[0]
    return tirx.Shuffle(list(vectors), [tirx.IntImm("int32", e) for e in elements])


def recast(buffer: Any, shape: Sequence[AnySize], dtype: str) -> Any:
    """Return a buffer as one of longer elements, of which the last axis has fewer.

    In another number of axes it must be row-major.
    """
    strides = None
    if len(buffer.strides) == len(shape):
        *before, last = buffer.strides
        together = buffer.shape[-1] // shape[-1]
        strides = [*(stride // together for stride in before), last]
    return T.decl_buffer(tuple(shape), dtype, buffer.data, strides, layout=None)


def zeros(lanes: int) -> Expr:
    """Return a vector of float32 zeros."""
    return splat(T.float32(0), lanes)


class Accumulators:
    """An array of ``count`` vectors of ``lanes`` numbers that LLVM keeps in registers.

    Every access is in an unrolled loop, so that its index is constant in the end. LLVM then splits
    the array into scalars ("SROA"), and it never accesses memory. This requires an array on the
    stack, see :func:`~tvm_ios.ops.tir_function.on_stack`.
    """

    def __init__(self, count: int, lanes: int, initial: Expr, dtype: str = "float32") -> None:
        self.lanes = lanes
        self._buffer = on_stack([count * lanes], dtype)

        def clear(i: Expr) -> None:
            self[i] = initial

        unroll(0, count, clear)

    def __getitem__(self, i: Expr) -> Expr:
        return self._buffer[lanes_of(i * self.lanes, self.lanes)]

    def first(self, i: Expr, lanes: int) -> Expr:
        """Return the first numbers of vector ``i``."""
        return self._buffer[lanes_of(i * self.lanes, lanes)]

    def element(self, i: Expr, lane: Expr) -> Expr:
        """Return one number of vector ``i``."""
        return self._buffer[i * self.lanes + lane]

    def __setitem__(self, i: Expr, value: Expr) -> None:
        T.buffer_store(self._buffer, value, [lanes_of(i * self.lanes, self.lanes)])


def bind(value: Expr) -> Expr:
    """Give an index to what is computed from it as a variable, so that that stays small.

    TVM's simplifier replaces variables by what they are bound to and simplifies that again wherever
    they are used, which took half of the time to compile a kernel. It does not know what is in
    memory. LLVM does, and keeps the value in a register.
    """
    if isinstance(value, int):
        return value
    held = on_stack([1], "int32")
    T.buffer_store(held, value, [0])
    return T.Bind(held[0])


def select(index: Expr, bodies: list[tuple[int, Callable[[Expr], None]]]) -> None:
    """Emit code that runs the body whose interval holds ``index``.

    Parameters
    ----------
    index : Expr
        A value from 0 up to the sum of all lengths.
    bodies : list of (length, body)
        Consecutive intervals. A body gets the index relative to its interval's begin.
    """
    bodies = [entry for entry in bodies if entry[0] > 0]

    def emit(position: int, begin: int) -> None:
        length, body = bodies[position]
        if position == len(bodies) - 1:
            body(index - begin)
            return
        with T.If(index < begin + length):
            with T.Then():
                body(index - begin)
            with T.Else():
                emit(position + 1, begin + length)

    emit(0, 0)


def loop(extent: AnySize, body: Callable[[Expr], None]) -> None:
    """Emit a loop of ``body(i)``, or just the body if there is a single iteration."""
    if extent == 1:
        body(0)
        return
    with T.serial(extent) as i:
        body(i)


def unroll(begin: int, end: int, body: Callable[[Expr], None]) -> None:
    """Emit a loop of ``body(i)`` that TVM unrolls once indices are flat.

    Unrolling here would give the same code, but TVM's passes would have to process every copy.

    Parameters
    ----------
    begin, end : int
        The range of ``i``.
    body : callable
        Emits one iteration.
    """
    if end - begin == 1:
        body(begin)
    elif end > begin:
        with T.unroll(begin, end) as i:
            body(i)


def along(length: AnySize, lanes: int, body: Callable[..., None]) -> None:
    """Call ``body(first, width)`` for the vectors of a row; the remainder is narrower.

    Parameters
    ----------
    length : int or Size
        Elements of the row.
    lanes : int
        Elements of a vector.
    body : callable
        Emits the code of one vector. The remainder of an open row is ``body(first, lanes, count)``,
        of which ``count`` elements exist.
    """
    if not isinstance(length, int):
        full = bind(length // lanes)
        loop(full, lambda i: body(i * lanes, lanes))
        begin = bind(full * lanes)
        count = bind(length - begin)
        with T.If(count > 0), T.Then():
            body(begin, lanes, count)
        return
    full, rest = divmod(length, lanes)
    if full:
        loop(full, lambda i: body(i * lanes, lanes))
    if rest:
        body(full * lanes, rest)


def one_by_one(part: Callable[[Any, int], None]) -> Callable[..., None]:
    """Return a body for :func:`along` that computes the remainder of an open row by elements."""

    def body(first: Any, width: int, count: Any = None) -> None:
        if count is None:
            part(first, width)
        else:
            loop(count, lambda i: part(first + i, 1))

    return body
