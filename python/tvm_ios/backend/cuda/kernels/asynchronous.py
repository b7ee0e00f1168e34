# SPDX-License-Identifier: Apache-2.0
"""Bringing slices of an operand to shared memory by copies that no thread waits for (cp.async).

They need neither registers nor a thread's attention, so that several slices can be on their way.
That is what hides the latency of global memory where few blocks share a multiprocessor: by Little's
law 48 bytes a cycle over a latency of 700 cycles are 33 KiB that have to be on their way at a time,
and a slice of 64 x 16 numbers of each operand are 8 KiB.

A copy is of 4, 8 or 16 bytes, and may be told to read none of them and to write zeros, which is
what padding and the operand's end are. It converts nothing: numbers that are to be rounded are
rounded in place by the thread that had them copied, before the barrier that shows them to others.
TVM's own passes (``InjectSoftwarePipeline``, ``InjectPTXAsyncCopy``) need ``tirx.use_async_copy``
for all of a module, and leave a copy as it is where they do not know its form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.backend.cuda.op import cuda_func_call
from tvm.tirx.script import builder as T

from .emit import every, registers, when
from .expressions import is_choice, is_zero, loads_in, variables_in
from .gemm_form import Axes, Operand
from .neighbours import address, bits, step
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
    """Make a group of the thread's copies since the last group."""
    T.evaluate(cuda_func_call("tvm_ios_commit_copies", source_code=_COMMIT))


def await_copies(groups: int) -> None:
    """Wait for all but the last so many groups of the thread's."""
    name = f"tvm_ios_await_copies{groups}"
    T.evaluate(cuda_func_call(name, source_code=_AWAIT % {"groups": groups}))


@dataclass(frozen=True)
class Copyable:
    """An operand whose elements are in memory as they are multiplied.

    Attributes
    ----------
    operand : Operand
    load : Expr
        The element.
    conditions : tuple of Expr
        Where one of them does not hold the element is zero, and ``load`` may be no address.
    vector : int
        Neighbours, as those of the operand, for all of which they hold or do not.
    """

    operand: Operand
    load: Expr
    conditions: tuple[Expr, ...]
    vector: int

    def width(self, layout: Layout) -> int | None:
        """Numbers that one copy brings into a layout; None where there is no such copy."""
        vector = 1
        if layout.along_depth == self.operand.along_depth:
            vector = math.gcd(self.vector, layout.depth if layout.along_depth else layout.outer)
        fits = layout.dtype == self.operand.dtype and vector * bits(layout.dtype) >= 32
        return vector if fits else None


def copyable(operand: Operand, outer: Axes, depth: Axes) -> Copyable | None:
    """How an operand's elements can be copied; None where something is computed on the way.

    Parameters
    ----------
    operand : Operand
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
        return None  # which must not be read where the conditions do not hold
    along = (depth if operand.along_depth else outer).variables
    together = along and _are_neighbours(value, along[-1])
    together = together and not any(along[-1] in variables_in(c) for c in conditions)
    return Copyable(operand, value, tuple(conditions), operand.vector if together else 1)


def _are_neighbours(load: Expr, along: Expr) -> bool:
    """Whether a vector has elements beside each other, and not one element several times."""
    flat = address(load.source, load.indices)
    return step(flat, along, dict.fromkeys(variables_in(flat), 1)) == 1


@dataclass
class AsynchronousStage(Stage):
    """Slices that are copied as they are.

    Attributes
    ----------
    copied : Copyable
        The operand.
    width : int
        Of it, the numbers that a copy brings.
    """

    copied: Copyable
    width: int

    @property
    def vector(self) -> int:
        """Numbers that a copy brings."""
        return self.width

    def begin_with(self, number: int) -> None:
        """Begin to copy a slice."""
        self.bring(number, number)

    def bring(self, number: Expr, slot: Expr) -> None:
        """Begin to copy a slice to a slot."""
        to = self.slice(slot)
        with T.unroll(self.rounds) as r:
            vector = r * self.threads + self.thread
            with when(self.exists(vector)):
                o, d = self.position(vector)
                # It says how many, so that TVM keeps as many: it shrinks buffers to what it sees.
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
        """Round what the thread had copied: nobody else sees it before the next barrier."""
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
