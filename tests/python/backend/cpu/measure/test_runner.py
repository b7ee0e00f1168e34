# SPDX-License-Identifier: Apache-2.0
"""What a session is told to run when stages are timed, without running it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tvm import relax

from support.networks import NATIVE, conv, few_stages, relax_module
from tvm_ios.backend.cpu.code import driver, units
from tvm_ios.backend.cpu.code.region import Region
from tvm_ios.backend.cpu.kernels.kernel import Kernel
from tvm_ios.backend.cpu.measure.runner import CpuStageRunner
from tvm_ios.backend.cpu.stage import stage
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.measure.protocol import Library
from tvm_ios.options import Options
from tvm_ios.schedule import ScheduledStage


class Recorder:
    """A session that computes nothing, and notes the program and the calls of each run."""

    limit = 0.0

    def __init__(self) -> None:
        self.program, self.runs = b"", list[bytes]()
        self._numbers = 0

    def call(self, name: str, *arguments: Any) -> Any:
        if name != "TimeOnRunner":
            self._numbers += 1
            return self._numbers
        _, self.program, stages, calls, _, repeat, _ = arguments
        size = len(calls) // repeat
        self.runs = [calls[i * size : (i + 1) * size] for i in range(repeat)]
        return np.full(2 + repeat * (2 + len(stages) // 4), 1e-3).tobytes()

    def load(self, library: Library) -> None: ...


def named(kernel: Kernel) -> SimpleNamespace:
    """A library with a function for each phase."""
    return SimpleNamespace(names={kernel.key: [f"phase {p}" for p, _ in enumerate(kernel.phases)]})


def runner() -> tuple[CpuStageRunner, Scheduler, Recorder]:
    def body(emit: Callable[[relax.Expr], relax.Var], x: relax.Expr) -> relax.Expr:
        return emit(conv(emit(conv(emit(conv(x, 24, seed=1)), 24, seed=2)), 8, seed=3))

    mod, options = relax_module(body, (1, 8, 9, 9)), Options(winograd=False)
    made = Scheduler.prepare(mod, NATIVE, cost_model=few_stages, options=options)
    session = Recorder()
    builder: Any = SimpleNamespace(library=named)
    return CpuStageRunner(made.stage_builder.lowered, builder, session, 0), made, session


@pytest.mark.parametrize("alone", [True, False])
def test_each_run_reads_its_weights_from_another_place(alone: bool) -> None:
    timer, made, session = runner()
    builder = made.stage_builder
    stage = builder.stage_of((0,), "concurrent")
    if alone:
        timer.time_alone(stage.implementations, 3)
    else:
        timer.time([builder.partition(stage, builder.default_partitioning, {})], 3)
    first, second, third = (np.frombuffer(run, "int64") for run in session.runs)
    moved = np.flatnonzero(first != second)
    assert len(moved) > 0
    assert not np.array_equal(second[moved], third[moved])
    assert len(moved) < len(first)  # the other tensors are where they were


def timed_units(program: bytes, workers: int) -> list[list[tuple[int, int]]]:
    """The tiles of each worker's units in a program, in order, as C++ divides them."""
    found: list[list[tuple[int, int]]] = [[] for _ in range(workers)]
    for _, _, count, *cuts in np.frombuffer(program, "int32").reshape(-1, 3 + workers + 1).tolist():
        for own, (begin, end) in zip(found, pairwise(cuts), strict=True):
            parts = max(1, min(end - begin, count))
            inner = [begin + (end - begin) * n // parts for n in range(parts + 1)]
            own += [part for part in pairwise(inner) if begin < end]
    return found


@pytest.mark.parametrize("partitioning", ["tiles", "strips"])
@pytest.mark.parametrize("unit", [1e-9, 1e-8])
def test_stages_have_the_units_of_the_network(
    partitioning: str, unit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    regions: list[Region] = []

    def units_of(region: Region) -> Any:
        regions.append(region)
        return units.units_of(region)

    monkeypatch.setattr(driver, "units_of", units_of)
    monkeypatch.setattr(stage, "_UNIT", unit)
    timer, made, session = runner()
    schedule = made.sequential()
    *names, last = [operator.name for operator in schedule.operators]
    first = ScheduledStage((tuple(names),), partitioning=partitioning)
    made.emit(replace(schedule, stages=(first, ScheduledStage(((last,),)))))
    (region,) = regions
    timer.time(region.stages, 1)
    deployed = zip(*units.units_of(region), strict=True)
    expected = [[(u.begin, u.end) for part in column for u in part] for column in deployed]
    assert timed_units(session.program, len(expected)) == expected
    counts = np.frombuffer(session.program, "int32").reshape(-1, 3 + len(expected) + 1)[:, 2]
    assert (0 in counts) == (partitioning == "strips")
    assert counts.max() > 1
