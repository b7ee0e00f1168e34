# SPDX-License-Identifier: Apache-2.0
"""The fastest kernel of a convolution is chosen by runs of the network with each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from tvm import relax

from support.networks import NATIVE, check_scheduled, conv, relax_module
from tvm_ios.backend.cpu.measure.tune import tuned
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.measure.cache import MeasurementCache
from tvm_ios.measure.stage_runner import Turn
from tvm_ios.options import Options
from tvm_ios.target import TYPICAL

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
    """A pool whose device takes as long as is said, by the kernels' names in schedules."""

    seconds: dict[str | None, float]
    speeds: Sequence[float] = (1.0,)
    fails: bool = False
    compiled: list[Any] = field(default_factory=list)
    runs: int = 0

    def compile(self, kernels: Iterable[Any]) -> None:
        self.compiled += kernels

    def each(self, items: Sequence[Any], work: Callable, done: Callable) -> None:
        for item in items:
            done(item, None if self.fails else work(self, item))

    def time(self, stages: Sequence[Any], repeat: int) -> Turn:
        """At a speed that changes from turn to turn; in the first run a worker loses its core."""
        speed = self.speeds[self.runs % len(self.speeds)]
        self.runs += 1
        row = [self.seconds.get(s.implementations[0].kernel.variant, 1.0) for s in stages]
        seconds = np.tile(speed * np.array(row), (repeat, 1))
        seconds[0] = -1.0
        return Turn(seconds, np.full((repeat, 2), speed), np.ones(2))


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


def predicted() -> str:
    return promising()[0]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_fastest_kernel_is_chosen(precision: str) -> None:
    first, other = promising(precision=precision)[:2]
    found = chosen(Stopwatch({first: 2.0, other: 1.0}), precision=precision)
    assert found[ALIKE] == [other] * 2


def test_a_kernel_that_is_as_fast_does_not_replace_the_predicted_one() -> None:
    first = predicted()
    times = {"winograd2": 0.98, "winograd4": 0.98, "direct": 0.98, first: 1.0}
    assert chosen(Stopwatch(times))[ALIKE] == [first] * 2


def test_the_machine_may_change_its_speed() -> None:
    """Each choice runs at another speed, which known work tells."""
    first = predicted()
    speeds = (1.0, 0.2, 0.3)
    times = {"winograd2": 1.1, "winograd4": 1.1, "direct": 1.1, first: 1.0}
    assert chosen(Stopwatch(times, speeds))[ALIKE] == [first] * 2


def test_what_is_known_is_not_measured_again() -> None:
    cache, first = MeasurementCache(), predicted()
    pool = Stopwatch({first: 3.0, "winograd2": 1.0})
    assert chosen(pool, cache)[1] == "winograd2"
    again = Stopwatch({})
    assert chosen(again, cache)[1] == "winograd2"
    assert not again.runs


def test_a_network_that_crashes_keeps_the_predicted_kernels() -> None:
    cache, first = MeasurementCache(), predicted()
    assert chosen(Stopwatch({}, fails=True), cache)[1] == first
    assert chosen(Stopwatch({first: 3.0, "winograd2": 1.0}), cache)[1] == "winograd2"


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
    scheduler = Scheduler.prepare(MOD, NATIVE, options=Options(precision="bf16"))
    builder: Any = scheduler.stage_builder
    names = [op.name for op in scheduler.graph.operators[ALIKE]]
    others = [builder.chosen(dict.fromkeys(names, name), {}) for name in ("bf16", "bf16-winograd4")]
    kinds = [dict(other.lowered.narrow) for other in others]
    assert kinds[0] == kinds[1] != {}
