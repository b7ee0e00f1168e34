# SPDX-License-Identifier: Apache-2.0
"""The fastest kernel of a convolution is chosen by runs of the network with each of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tvm import relax

from support.networks import NATIVE, check_scheduled, conv, relax_module
from tvm_ios.backend.cpu.core import TYPICAL
from tvm_ios.backend.cpu.measure.tune import tuned
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.measure.cache import MeasurementCache
from tvm_ios.measure.protocol import TimedRuns
from tvm_ios.options import Options

ALIKE = slice(1, 3)  # convolutions with one kernel


@pytest.fixture(autouse=True)
def _typical_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Predict the same on any machine."""
    monkeypatch.setattr("tvm_ios.backend.cpu.backend.machine_balance", lambda *_: TYPICAL)
    monkeypatch.setenv("TVM_IOS_EMULATE_INSTRUCTIONS", "1")


def body(emit, x):
    """Two convolutions with one kernel, and others that have no choice."""
    x = emit(relax.op.nn.max_pool2d(x, (3, 3), padding=1))
    for seed in range(2):
        x = emit(conv(x, 36, seed=seed, padding=1))
    return emit(conv(x, 12, 1))


MOD = relax_module(body, (2, 36, 17, 19))


@dataclass
class Stopwatch:
    """A pool whose device takes as long as is said, by the kernels' names in schedules.

    In two of three runs, those with some kernels are preempted, or all in all runs.
    """

    seconds: dict[str | None, float]
    speeds: Sequence[float] = (1.0,)
    disturbed: Collection[str] = ()
    preempted: bool = False
    fails: bool = False
    runs: int = 0

    def compile(self, kernels: Iterable[Any]) -> None:
        """Compile nothing: no kernel runs."""

    def each(self, items: Sequence[Any], work: Callable, done: Callable) -> None:
        for item in items:
            done(item, None if self.fails else work(self, item))

    def time(self, stages: Sequence[Any], repeat: int) -> TimedRuns:
        """Take as long, at a speed that changes from call to call."""
        speed = self.speeds[self.runs % len(self.speeds)]
        self.runs += 1
        names = [s.implementations[0].kernel.variant for s in stages]
        row = np.array([self.seconds.get(name, 1.0) for name in names])
        seconds = np.tile(speed * row, (repeat, 1))
        preempted = np.full(seconds.shape, self.preempted)
        preempted[1:] |= [name in self.disturbed for name in names]
        seconds[1:, [name in self.disturbed for name in names]] = 0.1
        return TimedRuns(seconds, preempted, np.full((repeat, 2), speed), np.ones(2))


def chosen(pool: Stopwatch, cache: MeasurementCache | None = None, **options: Any) -> list[Any]:
    """The kernels of the convolutions after tuning."""
    scheduler = Scheduler.prepare(MOD, NATIVE, options=Options(**options))
    builder: Any = tuned(scheduler.stage_builder, pool, cache or MeasurementCache())  # type: ignore[arg-type]
    return [builder.variant(op) for op in range(len(builder.lowered.implementations))]


def promising(**options: Any) -> tuple[str, ...]:
    """The predicted kernel of the convolutions, and others."""
    scheduler = Scheduler.prepare(MOD, NATIVE, options=Options(**options))
    names: tuple[str, ...] = scheduler.stage_builder.promising(1)  # type: ignore[attr-defined]
    assert len(names) > 1
    return names


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_fastest_kernel_is_chosen(precision: str) -> None:
    first, other = promising(precision=precision)[:2]
    found = chosen(Stopwatch({first: 2.0, other: 1.0}), precision=precision)
    assert found[ALIKE] == [other] * 2


def test_a_kernel_that_is_as_fast_does_not_replace_the_predicted_one() -> None:
    first, *others = promising()
    times = {**dict.fromkeys(others, 0.98), first: 1.0}
    assert chosen(Stopwatch(times))[ALIKE] == [first] * 2


def test_the_machine_may_change_its_speed() -> None:
    """Each choice runs at another speed, which known work tells."""
    names = promising()
    speeds = (1.0, *(0.2 for _ in names[1:]))
    times = {**dict.fromkeys(names, 1.1), names[0]: 1.0}
    assert chosen(Stopwatch(times, speeds))[ALIKE] == [names[0]] * 2


def test_times_of_a_preempted_worker_do_not_count() -> None:
    first, *others = promising()
    pool = Stopwatch(dict.fromkeys((first, *others), 1.0), disturbed=others)
    assert chosen(pool)[ALIKE] == [first] * 2


@pytest.mark.parametrize("kept", [0, 1])
def test_what_was_always_preempted_has_the_time_of_its_fastest_run(kept: int) -> None:
    """So a search on a busy machine chooses what the next one finds."""
    cache, names = MeasurementCache(), promising()
    times = {name: 1.0 if n == kept else 2.0 for n, name in enumerate(names)}
    pool = Stopwatch(times, preempted=True)
    assert chosen(pool, cache)[ALIKE] == [names[kept]] * 2
    again = Stopwatch({})
    assert chosen(again, cache)[ALIKE] == [names[kept]] * 2
    assert not again.runs


def test_what_is_known_is_not_measured_again() -> None:
    cache, (first, other) = MeasurementCache(), promising()[:2]
    pool = Stopwatch({first: 3.0, other: 0.5})
    assert chosen(pool, cache)[1] == other
    again = Stopwatch({})
    assert chosen(again, cache)[1] == other
    assert not again.runs


def test_a_network_that_crashes_keeps_the_predicted_kernels() -> None:
    cache, (first, other) = MeasurementCache(), promising()[:2]
    assert chosen(Stopwatch({}, fails=True), cache)[1] == first
    assert chosen(Stopwatch({first: 3.0, other: 0.5}), cache)[1] == other


def test_without_winograds_algorithm_there_is_no_choice() -> None:
    pool = Stopwatch({})
    chosen(pool, winograd=False)
    assert not pool.runs


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", ["direct", "winograd2", "winograd4"])
def test_networks_compute_the_same_with_any_of_them(precision: str, name: str) -> None:
    """Also one that reads bfloat16 and multiplies float32."""
    if precision == "bf16":
        name = "bf16" if name == "direct" else f"bf16-{name}"
    options = Options(precision=precision)
    scheduler = Scheduler.prepare(MOD, NATIVE, options=options)
    kernels = {op.name: name for op in scheduler.graph.operators[ALIKE]}
    scheduler.stage_builder = scheduler.stage_builder.chosen(kernels, {})
    schedule = scheduler.unsearched()
    assert [op.kernel for op in schedule.operators[ALIKE]] == [name] * 2
    check_scheduled(
        MOD, schedule=schedule, precision=precision, relative=1e-4 if precision == "fp32" else 0.02
    )


def test_a_search_on_this_machine() -> None:
    """It times the kernels, and names what it chose."""
    schedule = Scheduler.prepare(MOD, NATIVE).search()
    names = {op.kernel for op in schedule.operators[ALIKE]}
    assert len(names) == 1
    assert names <= {"direct", "winograd2", "winograd4"}
    check_scheduled(MOD, schedule=schedule)


def test_values_are_stored_alike_whatever_is_chosen() -> None:
    """So that runners keep the memory of the network."""

    def pooled(emit, x):
        return emit(conv(emit(relax.op.nn.max_pool2d(x, (3, 3), padding=1)), 36, padding=1))

    mod = relax_module(pooled, (2, 36, 17, 19))
    builder: Any = Scheduler.prepare(mod, NATIVE, options=Options(precision="bf16")).stage_builder
    name = builder.lowered.graph.operators[1].name
    kernels = [builder.chosen({name: kernel}, {}) for kernel in ("bf16", "bf16-winograd4")]
    assert [other.variant(1) for other in kernels] == ["bf16", "bf16-winograd4"]
    assert kernels[0].lowered.narrow == kernels[1].lowered.narrow != {}
