# SPDX-License-Identifier: Apache-2.0
"""What the kernels' emitters share: vectors, accumulators in registers, column tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tvm.tirx.script import builder as T

Expr = Any


def lanes_of(base: Expr, lanes: int) -> Expr:
    """The index of ``lanes`` neighbouring elements from ``base``."""
    return base if lanes == 1 else T.Ramp(base, 1, lanes)


def splat(value: Expr, lanes: int) -> Expr:
    """A scalar in every lane."""
    return value if lanes == 1 else T.Broadcast(value, lanes)


def zeros(lanes: int) -> Expr:
    return splat(T.float32(0), lanes)


@contextmanager
def tile_scope() -> Iterator[None]:
    """A block that owns the registers allocated in it."""
    with T.sblock("tile"):
        T.reads()
        T.writes()
        yield


ON_STACK = {"disable_lower_builtin": True}
"""Annotation of a buffer that is to be on the stack. TVM would have its runtime allocate it, and
LLVM then keeps it in registers only as long as it can prove that no store in a loop overwrites it.
StorageRewrite forgets the annotation, which is why kernels are built without that pass."""


class Accumulators:
    """``count`` vectors of ``lanes`` float32 that LLVM keeps in registers.

    Every access is in an unrolled loop, so that its index is constant in the end, the array is
    split into scalars ("SROA") and never touches memory. That takes an array on the stack, see
    :data:`ON_STACK`.
    """

    def __init__(self, count: int, lanes: int, initial: Expr) -> None:
        self.lanes = lanes
        self._buffer = T.alloc_buffer(
            (count * lanes,), scope="local", layout=None, annotations=ON_STACK
        )

        def clear(i: Expr) -> None:
            self[i] = initial

        unroll(0, count, clear)

    def __getitem__(self, i: Expr) -> Expr:
        return self._buffer[lanes_of(i * self.lanes, self.lanes)]

    def __setitem__(self, i: Expr, value: Expr) -> None:
        T.buffer_store(self._buffer, value, [lanes_of(i * self.lanes, self.lanes)])


def bind(value: Expr) -> Expr:
    """``value`` as a variable, so that every index that uses it stays small."""
    return value if isinstance(value, int) else T.Bind(value)


def select(index: Expr, bodies: list[tuple[int, Callable[[Expr], None]]]) -> None:
    """Run the body whose interval holds ``index``.

    Parameters
    ----------
    index : Expr
        A value from 0 up to the sum of all lengths.
    bodies : list of (length, body)
        Consecutive intervals; a body gets the index relative to its interval's begin.
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


def loop(extent: int, body: Callable[[Expr], None]) -> None:
    """``body(i)`` for every ``i``; without a loop where there is a single one."""
    if extent == 1:
        body(0)
        return
    with T.serial(extent) as i:
        body(i)


def unroll(begin: int, end: int, body: Callable[[Expr], None]) -> None:
    """``body(i)`` for every ``i``, to be unrolled by TVM when indices are flat.

    Unrolling here would give the same code, but TVM's passes would see each access of it.
    """
    if end - begin == 1:
        body(begin)
    elif end > begin:
        with T.unroll(begin, end) as i:
            body(i)
