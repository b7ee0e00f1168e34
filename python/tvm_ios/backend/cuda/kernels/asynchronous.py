# SPDX-License-Identifier: Apache-2.0
"""Asynchronous copies (cp.async) of operand slices to shared memory; no thread waits for them.

The copies occupy neither registers nor a thread, so several slices can be in flight. This hides the
latency of global memory if few blocks share a multiprocessor. By Little's law, 48 bytes per cycle
at a latency of 700 cycles require 33 KiB in flight, while slices of 64 x 16 elements of both
operands are 8 KiB.

A copy moves 4, 8 or 16 bytes. It can be told to read none of them and to write zeros, which serves
padding and the operand's end. It converts nothing: the thread that issued a copy rounds the
elements in place, if necessary, before the barrier that publishes them to other threads.

TVM's own passes (``InjectSoftwarePipeline``, ``InjectPTXAsyncCopy``) need ``tirx.use_async_copy``
for a whole module, and silently skip copies whose form they do not know.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.backend.cuda.op import cuda_func_call
from tvm.tirx.script import builder as T

from .contiguity import address, bits, step
from .emit import every, registers, when
from .expressions import is_choice, is_zero, loads_in, variables_in
from .match_gemm import Axes, Operand
from .staging import Layout, Stage

Expr = Any

_COPY = """
__device__ __forceinline__ void tvm_ios_copy%(bytes)d(void* to, const void* from, bool inside) {
  unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  unsigned size = inside ? %(bytes)d : 0;
  __asm__ __volatile__(
      "cp.async.%(cache)s.shared.global [%%0], [%%1], %(bytes)d, %%2;\\n"
      :: "r"(address), "l"(from), "r"(size) : "memory");
}
"""

_COMMIT = """
__device__ __forceinline__ void tvm_ios_commit_copies() {
  __asm__ __volatile__("cp.async.commit_group;\\n" ::: "memory");
}
"""

_AWAIT = """
__device__ __forceinline__ void tvm_ios_await_copies%(groups)d() {
  __asm__ __volatile__("cp.async.wait_group %(groups)d;\\n" ::: "memory");
}
"""


def commit_copies() -> None:
    """Emit a commit: the thread's copies since the last commit become a group."""
    T.evaluate(cuda_func_call("tvm_ios_commit_copies", source_code=_COMMIT))


def await_copies(groups: int) -> None:
    """Emit a wait for all but the last ``groups`` groups of the thread."""
    name = f"tvm_ios_await_copies{groups}"
    T.evaluate(cuda_func_call(name, source_code=_AWAIT % {"groups": groups}))


@dataclass(frozen=True)
class Copyable:
    """An operand whose elements are stored in memory as they are multiplied.

    Attributes
    ----------
    operand : Operand
    load : Expr
        The element.
    conditions : tuple of Expr
        If one of them is false, the element is zero, and ``load`` may be out of bounds.
    vector : int
        Length of the aligned runs of the operand's neighbours for which all conditions are equal.
    """

    operand: Operand
    load: Expr
    conditions: tuple[Expr, ...]
    vector: int

    def width(self, layout: Layout) -> int | None:
        """Return the elements that one copy moves into a layout, None if no copy does."""
        vector = 1
        if layout.along_depth == self.operand.along_depth:
            vector = math.gcd(self.vector, layout.depth if layout.along_depth else layout.outer)
        fits = layout.dtype == self.operand.dtype and vector * bits(layout.dtype) >= 32
        return vector if fits else None


def copyable(operand: Operand, outer: Axes, depth: Axes) -> Copyable | None:
    """Return how an operand's elements can be copied, None if anything is computed on the way.

    Parameters
    ----------
    operand : Operand
        One side of the product.
    outer, depth : Axes
        Its axes.
    """
    value, conditions = operand.value, []
    while is_choice(value):
        condition, value, other = value.args
        if not is_zero(other):
            return None
        conditions.append(condition)
    if not isinstance(value, tvm.ir.TensorLoad):
        return None
    if any(loads_in(e) for e in (*value.indices, *conditions)):
        return None  # it must not be read if a condition is false
    along = (depth if operand.along_depth else outer).variables
    together = along and _are_neighbours(value, along[-1])
    together = together and not any(along[-1] in variables_in(c) for c in conditions)
    return Copyable(operand, value, tuple(conditions), operand.vector if together else 1)


def _are_neighbours(load: Expr, along: Expr) -> bool:
    """Return whether a vector's elements are neighbours, not one element several times."""
    flat = address(load.source, load.indices)
    return step(flat, along, dict.fromkeys(variables_in(flat), 1)) == 1


@dataclass
class AsynchronousStage(Stage):
    """A stage whose slices are copied unchanged by cp.async.

    Attributes
    ----------
    copied : Copyable
        The operand.
    width : int
        Elements that one copy moves.
    """

    copied: Copyable
    width: int

    @property
    def vector(self) -> int:
        """The elements that one copy moves."""
        return self.width

    def begin_with(self, number: int) -> None:
        """Start the copies of a slice."""
        self.bring(number, number)

    def bring(self, number: Expr, slot: Expr) -> None:
        """Start the copies of a slice into a slot."""
        to = self.slice(slot)
        with T.unroll(self.rounds) as r:
            vector = r * self.threads + self.thread
            with when(self.exists(vector)):
                o, d = self.position(vector)
                # The extent matters: TVM shrinks buffers to the elements that it sees accessed.
                pointer = self.shared.access_ptr("w", offset=to.at(o, d), extent=self.vector)
                self._copy(pointer, self.source.row + o, self.source.first(number) + d)

    def _copy(self, to: Expr, outer: Expr, depth: Expr) -> None:
        source, size = self.source, self.vector * bits(self.layout.dtype) // 8
        at = source.outer.split(outer) | source.depth.split(depth)
        conditions = [source.element(c, at) for c in self.copied.conditions]
        inside = every([*self.bounds(outer, depth), *conditions])
        element = T.address_of(source.element(self.copied.load, at))
        code = _COPY % {"bytes": size, "cache": "cg" if size == 16 else "ca"}
        arguments = (to, element, True if inside is None else inside)
        T.evaluate(cuda_func_call(f"tvm_ios_copy{size}", *arguments, source_code=code))

    def settle(self, slot: Expr) -> None:
        """Round the thread's own copies; no other thread reads them before the next barrier."""
        if not self.rounded:
            return
        part, to = registers(self.vector, self.layout.dtype), self.slice(slot)
        with T.unroll(self.rounds) as r:
            vector = r * self.threads + self.thread
            with when(self.exists(vector)):
                o, d = self.position(vector)
                first = to.at(o, d)
                with T.vectorized(self.vector) as lane:
                    T.buffer_store(part, self.shared[first + lane], [lane])
                with T.unroll(self.vector) as i:
                    T.buffer_store(part, self.rounded(part[i]), [i])
                with T.vectorized(self.vector) as lane:
                    T.buffer_store(self.shared, part[lane], [first + lane])
