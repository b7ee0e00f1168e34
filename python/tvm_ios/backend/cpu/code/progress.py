# SPDX-License-Identifier: Apache-2.0
"""The code by which workers of a launch wait for each other's progress.

Each worker counts the positions that it has completed, in a cache line of its own on the stack of
the caller. Other workers wait until a count is high enough. What has to be waited for is a table in
the library. The code is LLVM IR, which is compiled into the library, so that it needs nothing but
TVM's runtime.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

import tvm
from tvm import tirx
from tvm.tirx.script import builder as T

from ....ops.tir_function import on_stack
from .llvm_ir import constant_array, symbol
from .waits import WaitPlan

_LINE = 32  # int32 numbers from one count to the next: two cache lines, which are fetched together
_TRIES = 16  # looks at a count before the core is offered to other threads: a microsecond


class Progress:
    """Emits the waits of one launch.

    Parameters
    ----------
    name : str
        A name that no other launch of the library has.
    plan : WaitPlan
        Whom the workers wait for.
    size : int
        The number of positions.
    workers : int
    target : tvm.target.Target
        The target of the code.
    """

    def __init__(
        self, name: str, plan: WaitPlan, size: int, workers: int, target: tvm.target.Target
    ) -> None:
        self._name, self._plan, self._size, self._workers = name, plan, size, workers
        self._waiting = {wait.position for wait in plan.waits}
        self._awaited = {wait.completed for wait in plan.waits}
        self._pause = _pause(target)
        self._counts: Any = None

    @contextmanager
    def before_launch(self) -> Iterator[None]:
        """Emit what the caller does before the launch emitted inside: all counts become zero."""
        if not self._plan.waits:
            yield
            return
        size = self._workers * _LINE
        self._counts = on_stack([size], "int32")
        with T.serial(size) as i:
            T.buffer_store(self._counts, tirx.const(0, "int32"), [i])
        source = tvm.ir.StringImm(self._source())
        with T.attr(tirx.const(0, "int32"), "pragma_import_llvm", source):
            yield

    def begin(self, position: int, worker: Any) -> None:
        """Emit the waits of ``worker`` before a position."""
        if position in self._waiting:
            step = tirx.const(position * self._workers, "int32") + worker
            T.evaluate(T.call_extern("int32", self._wait, self._counts.data, step))

    def end(self, position: int, worker: Any) -> None:
        """Emit that ``worker`` has completed a position."""
        completed = position + 1
        if completed in self._awaited:
            count = tirx.const(completed, "int32")
            arguments = (self._counts.data, worker, count)
            T.evaluate(T.call_extern("int32", self._complete, *arguments))

    @property
    def _wait(self) -> str:
        return f"{self._name}_wait"

    @property
    def _complete(self) -> str:
        return f"{self._name}_complete"

    def _source(self) -> str:
        """Return the LLVM IR of the functions and of their table.

        The waits of a step are those from ``first[step]`` to ``first[step + 1]``.
        """
        counts = [0] * (self._size * self._workers)
        for wait in self._plan.waits:
            counts[wait.position * self._workers + wait.worker] += 1
        first = list(accumulate(counts, initial=0))
        pairs = [n for wait in self._plan.waits for n in (wait.other * _LINE, wait.completed)]
        return _SOURCE.format(
            wait=symbol(self._wait),
            complete=symbol(self._complete),
            first=symbol(f"{self._name}_first"),
            pairs=symbol(f"{self._name}_pairs"),
            size=len(first),
            begins=constant_array(first),
            count=len(pairs),
            numbers=constant_array(pairs),
            line=_LINE,
            tries=_TRIES,
            pause=self._pause,
        )


def _pause(target: tvm.target.Target) -> str:
    """Return the instruction that tells a core that it waits; nothing if it is not known."""
    triple = str(target.attrs.get("mtriple", "")) or platform.machine()
    names = {"x86_64": "pause", "amd64": "pause", "aarch64": "yield", "arm64": "yield"}
    return names.get(triple.split("-")[0].lower(), "")


_SOURCE = """
{first} = internal constant [{size} x i32] [{begins}]
{pairs} = internal constant [{count} x i32] [{numbers}]
declare i32 @sched_yield()

define internal i32 {wait}(ptr %counts, i32 %step) {{
entry:
  %place = getelementptr i32, ptr {first}, i32 %step
  %begin = load i32, ptr %place
  %following = getelementptr i32, ptr %place, i32 1
  %end = load i32, ptr %following
  br label %more
more:
  %number = phi i32 [%begin, %entry], [%next, %ready]
  %left = icmp ult i32 %number, %end
  br i1 %left, label %find, label %done
find:
  %index = shl i32 %number, 1
  %pair = getelementptr i32, ptr {pairs}, i32 %index
  %other = load i32, ptr %pair
  %second = getelementptr i32, ptr %pair, i32 1
  %needed = load i32, ptr %second
  %count = getelementptr i32, ptr %counts, i32 %other
  br label %look
look:
  %tries = phi i32 [0, %find], [%tried, %pause], [%tried, %yield]
  %completed = load atomic i32, ptr %count acquire, align 4
  %enough = icmp uge i32 %completed, %needed
  br i1 %enough, label %ready, label %again
again:
  %tried = add i32 %tries, 1
  %patient = icmp ult i32 %tried, {tries}
  br i1 %patient, label %pause, label %yield
pause:
  call void asm sideeffect "{pause}", "~{{memory}}"()
  br label %look
yield:
  call i32 @sched_yield()
  br label %look
ready:
  %next = add i32 %number, 1
  br label %more
done:
  ret i32 0
}}

define internal i32 {complete}(ptr %counts, i32 %worker, i32 %completed) {{
  %line = mul i32 %worker, {line}
  %count = getelementptr i32, ptr %counts, i32 %line
  store atomic i32 %completed, ptr %count release, align 4
  ret i32 0
}}
"""
