# SPDX-License-Identifier: Apache-2.0
"""Claims of cores by the tasks of a launch, so that no two tasks start on the same core.

Linux may wake a worker that slept between two calls on the core of its caller, although another
core is idle, and moves it only after milliseconds. Binding workers to cores would avoid this, but a
bound worker cannot leave a core that another program uses. The tasks therefore claim cores when
they start: a task that finds its core claimed by another one moves to a free core, and may run on
all of its cores again from then on. The caller gives a worker that waits for its core the chance to
leave.

This is for launches on TVM's thread pool, where a network runs without our C++ library: it is LLVM
IR, compiled into the network's library, so that it needs nothing but TVM's runtime.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tvm
from tvm import tirx
from tvm.tirx.script import builder as T

from ....ops.tir_function import on_stack

_BYTES = 128  # of glibc's and musl's cpu_set_t
_CLAIM, _CLAIM_DISTINCT = "tvm_ios_claim_core", "tvm_ios_claim_distinct_core"


class CoreClaims:
    """Emits the claims of cores of one launch; nothing on systems other than Linux.

    What is emitted calls functions of :func:`claims_source`.

    Parameters
    ----------
    target : tvm.target.Target
        The target of the code.
    """

    def __init__(self, target: tvm.target.Target) -> None:
        self._claimed: Any = None
        self._needed = _is_linux(target)

    @contextmanager
    def before_launch(self) -> Iterator[None]:
        """Emit what the caller does before the launch emitted inside: it claims its core."""
        if not self._needed:
            yield
            return
        self._claimed = on_stack([_BYTES], "int8")
        with T.serial(_BYTES) as i:
            T.buffer_store(self._claimed, tirx.const(0, "int8"), [i])
        T.evaluate(T.call_extern("int32", _CLAIM, self._claimed.data))
        yield

    def at_start(self, worker: Any) -> None:
        """Emit what each task of the launch does first."""
        if self._needed:
            T.evaluate(T.call_extern("int32", _CLAIM_DISTINCT, self._claimed.data, worker))


def claims_source(target: tvm.target.Target) -> str:
    """Return the LLVM IR of the functions that launches call."""
    return _SOURCE if _is_linux(target) else ""


def _is_linux(target: tvm.target.Target) -> bool:
    triple = str(target.attrs.get("mtriple", ""))
    return "-linux" in triple if triple else sys.platform == "linux"


_SOURCE = f"""
declare i32 @sched_getcpu()
declare i32 @sched_yield()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)

; Claim the core of this thread. Return whether another task had claimed it.
define weak hidden i32 @{_CLAIM}(ptr %claimed) {{
  %core = call i32 @sched_getcpu()
  %known = icmp ult i32 %core, {8 * _BYTES}
  br i1 %known, label %mark, label %unknown
mark:
  %byte = lshr i32 %core, 3
  %place = getelementptr i8, ptr %claimed, i32 %byte
  %number = and i32 %core, 7
  %shifted = shl i32 1, %number
  %bit = trunc i32 %shifted to i8
  %before = atomicrmw or ptr %place, i8 %bit monotonic
  %marked = and i8 %before, %bit
  %again = icmp ne i8 %marked, 0
  %result = zext i1 %again to i32
  ret i32 %result
unknown:
  ret i32 0
}}

define weak hidden i32 @{_CLAIM_DISTINCT}(ptr %claimed, i32 %task) {{
  %allowed = alloca i{8 * _BYTES}, align 16
  %free = alloca i{8 * _BYTES}, align 16
  %caller = icmp eq i32 %task, 0
  br i1 %caller, label %yield, label %look
yield:
  call i32 @sched_yield()
  br label %done
look:
  %shared = call i32 @{_CLAIM}(ptr %claimed)
  %alone = icmp eq i32 %shared, 0
  br i1 %alone, label %done, label %ask
ask:
  %failed = call i32 @sched_getaffinity(i32 0, i64 {_BYTES}, ptr %allowed)
  %unknown = icmp ne i32 %failed, 0
  br i1 %unknown, label %done, label %choose
choose:
  %may = load i{8 * _BYTES}, ptr %allowed, align 16
  %used = load i{8 * _BYTES}, ptr %claimed, align 1
  %others = xor i{8 * _BYTES} %used, -1
  %left = and i{8 * _BYTES} %may, %others
  %full = icmp eq i{8 * _BYTES} %left, 0
  br i1 %full, label %done, label %move
move:
  store i{8 * _BYTES} %left, ptr %free, align 16
  call i32 @sched_setaffinity(i32 0, i64 {_BYTES}, ptr %free)
  call i32 @{_CLAIM}(ptr %claimed)
  call i32 @sched_setaffinity(i32 0, i64 {_BYTES}, ptr %allowed)
  br label %done
done:
  ret i32 0
}}
"""
