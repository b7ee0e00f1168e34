# SPDX-License-Identifier: Apache-2.0
"""A mode in which a network records when its workers compute what.

Each call of a kernel notes the time before and after it in a tensor that the network returns
besides its results. Everything else is as it is without: the waits, the places of the tensors, and
the order of the calls.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import tvm
from tvm import tirx
from tvm.tirx.script import builder as T

from ....ops.tensor import TensorSpec
from ..stage.plan import Share
from ..stage.stage import CpuStage
from .llvm_ir import symbol
from .region import Region
from .waits import Position, WaitPlan, positions

_CLOCK = 6 if sys.platform == "darwin" else 1  # CLOCK_MONOTONIC


class Record(NamedTuple):
    """What was recorded: a worker called a phase of a kernel, maybe on no tiles.

    Attributes
    ----------
    position : int
        The place in the launch.
    worker : int
    stage : CpuStage
    call, phase : int
        The kernel of the stage, and its phase.
    empty : bool
        Whether the worker had no tiles to compute.
    """

    position: int
    worker: int
    stage: CpuStage
    call: int
    phase: int
    empty: bool


class Recorder:
    """Emits the records of one launch.

    Parameters
    ----------
    name : str
        A name that no other launch of the library has.
    region : Region
        What is launched.

    Attributes
    ----------
    region : Region
    records : list of Record
        In the order in which they are stored; each is two numbers, the nanoseconds before and after
        the call.
    spec : TensorSpec
        The tensor in which they are stored.
    workers : int
    plan : WaitPlan
        How the workers wait for each other; known when the launch is emitted.
    """

    def __init__(self, name: str, region: Region) -> None:
        launched = [list(_records(n, p)) for n, p in enumerate(positions(region.stages))]
        self._name, self._first = name, list(accumulate(map(len, launched), initial=0))
        self._timestamps: Any = None
        self.region = region
        self.records = [record for position in launched for record in position]
        self.spec = TensorSpec((2 * len(self.records),), "int64")
        self.workers = region.stages[0].plan.workers
        self.plan = WaitPlan(frozenset(), ())

    @contextmanager
    def launch(self, timestamps: Any, plan: WaitPlan) -> Iterator[None]:
        """Emit what the launch emitted inside needs to record in ``timestamps`` of :attr:`spec`."""
        self._timestamps, self.plan = timestamps, plan
        source = _SOURCE.format(note=symbol(self._note), clock=_CLOCK)
        with T.attr(tirx.const(0, "int32"), "pragma_import_llvm", tvm.ir.StringImm(source)):
            yield

    @contextmanager
    def around(self, position: int, worker: Any, step: int = 0) -> Iterator[None]:
        """Emit the record of the call emitted inside.

        Parameters
        ----------
        position : int
        worker : expression
            A number, or the variable of the launch if all workers make the same call.
        step : int
            The number among the worker's calls at this position.
        """
        first = self._first[position]
        if isinstance(worker, int):
            own = (n for n, r in enumerate(self.records[first:]) if r.worker == worker)
            worker = tirx.const(next(own) + step, "int32")
        record = tirx.const(2 * first, "int32") + 2 * worker
        self._emit(record)
        yield
        self._emit(record + 1)

    @property
    def _note(self) -> str:
        return f"{self._name}_note"

    def _emit(self, record: Any) -> None:
        T.evaluate(T.call_extern("int32", self._note, self._timestamps.data, record))


def _records(number: int, position: Position) -> Iterator[Record]:
    """Yield the calls at a position: one of each worker, or the steps of each in turn."""
    share = position.share
    if isinstance(share, Share):
        for worker, (begin, end) in enumerate(pairwise(share.cuts)):
            yield Record(number, worker, position.stage, share.call, share.phase, begin == end)
        return
    for worker, steps in enumerate(share.steps):
        for step in steps:
            yield Record(number, worker, position.stage, step.call, 0, step.begin == step.end)


_SOURCE = """
declare i32 @clock_gettime(i32, ptr)

define internal i32 {note}(ptr %timestamps, i32 %record) {{
  %time = alloca [2 x i64]
  call i32 @clock_gettime(i32 {clock}, ptr %time)
  %seconds = load i64, ptr %time
  %place = getelementptr i64, ptr %time, i32 1
  %rest = load i64, ptr %place
  %whole = mul i64 %seconds, 1000000000
  %timestamp = add i64 %whole, %rest
  %target = getelementptr i64, ptr %timestamps, i32 %record
  store i64 %timestamp, ptr %target
  ret i32 0
}}
"""
