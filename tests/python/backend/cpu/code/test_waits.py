# SPDX-License-Identifier: Apache-2.0
"""Workers wait for what they need, and a wait that is missing is noticed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import tvm
from tvm import relax

from support.networks import NATIVE, constant, conv, few_stages, relax_module
from support.tiled import BODIES
from tvm_ios.backend.cpu.code import driver
from tvm_ios.backend.cpu.code.waits import Wait, WaitPlan
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.schedule import Schedule

op = relax.op
IMAGE = (1, 20, 12, 10)


def branches(emit, x):
    """Two branches that are concatenated in place, one of them by Winograd's algorithm."""
    x = emit(conv(x, 32, 1, seed=1))
    left = emit(op.nn.relu(emit(conv(x, 32, 3, padding=1, seed=2))))
    right = emit(op.nn.max_pool2d(emit(conv(x, 48, 1, seed=3)), (3, 3), padding=1))
    return emit(conv(emit(op.concat([left, right], axis=1)), 20, 1, seed=4))


NETWORKS = [branches, *(pytest.param(body, marks=pytest.mark.slow) for body in BODIES)]


@dataclass
class Plans:
    """Records the plans of launches, and changes them.

    Attributes
    ----------
    made : list of WaitPlan
        What was planned, launch by launch.
    positions : list of int
        How many positions each launch has.
    """

    change: Callable[[int, WaitPlan], WaitPlan] = lambda _, plan: plan
    made: list[WaitPlan] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._plan = driver.waits_of

    def __call__(self, synchronization, launched, *rest) -> WaitPlan:
        plan = self._plan(synchronization, launched, *rest)
        self.made.append(plan)
        self.positions.append(len(launched))
        return self.change(len(self.made) - 1, plan)


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> Plans:
    plans = Plans()
    monkeypatch.setattr(driver, "waits_of", plans)
    return plans


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_IOS_CHECK_WAITS", "1")


def prepared(body, workers: int = 2, image: tuple[int, ...] = IMAGE) -> Scheduler:
    target = tvm.target.Target({**NATIVE.export(), "num-cores": workers})
    return Scheduler.prepare(relax_module(body, image), target, cost_model=few_stages)


def point_to_point(schedule: Schedule) -> Schedule:
    return replace(schedule, synchronization="point-to-point")


class Compiled:
    """Variants of one network."""

    def __init__(self, scheduler: Scheduler, schedules: dict[str, Schedule]) -> None:
        self._variants = scheduler.compile(schedules)

    def run(self, name: str) -> np.ndarray:
        result = self._variants._vm[name](*self._variants._arguments)
        return (result if isinstance(result, tvm.runtime.Tensor) else result[0]).numpy()

    def run_often(self, name: str) -> None:
        """Run a variant until it fails: on a busy machine a delay may come at the wrong time."""
        for _ in range(20):
            self.run(name)


def schedules_of(scheduler: Scheduler) -> Iterator[Schedule]:
    """One operator a stage as predicted, and by tiles, and all that fits together."""
    single = scheduler.unsearched()
    yield single
    yield replace(single, stages=tuple(replace(s, partitioning="tiles") for s in single.stages))
    yield scheduler.greedy()


@pytest.mark.parametrize("workers", [pytest.param(2, marks=pytest.mark.slow), 5])
@pytest.mark.parametrize("body", [branches, *BODIES], ids=lambda f: f.__name__)
def test_both_synchronizations_compute_the_same(checked, body, workers: int) -> None:
    scheduler = prepared(body, workers)
    variants = {}
    for number, schedule in enumerate(schedules_of(scheduler)):
        variants |= {f"barrier{number}": schedule, f"waits{number}": point_to_point(schedule)}
    compiled = Compiled(scheduler, variants)
    for number in range(3):
        expected = compiled.run(f"barrier{number}")
        for _ in range(5):
            np.testing.assert_array_equal(compiled.run(f"waits{number}"), expected)


def test_a_worker_may_compute_rows_of_padding_alone(checked) -> None:
    """With a worker for each row, the last one reads nothing of the image."""

    def body(emit, x):
        x = emit(conv(emit(conv(x, 16, 1, seed=1)), 16, 1, padding=(0, 0, 1, 1), seed=2))
        return emit(conv(x, 16, 1, seed=3))

    found = []
    for workers in (1, 8):
        scheduler = prepared(body, workers, (1, 16, 7, 7))
        found.append(Compiled(scheduler, {"sequential": scheduler.unsearched()}).run("sequential"))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("body", NETWORKS, ids=lambda f: f.__name__)
def test_a_delayed_worker_changes_nothing(
    checked, plans: Plans, body, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each worker is late at each position in turn, then all at random."""
    scheduler = prepared(body)
    compiled = Compiled(scheduler, {"waits": point_to_point(scheduler.unsearched())})
    expected = compiled.run("waits")
    for delays in [*range(2 * plans.positions[0]), *range(-20, 0)]:
        monkeypatch.setenv("TVM_IOS_DELAYS", str(delays))
        np.testing.assert_array_equal(compiled.run("waits"), expected)


@pytest.mark.parametrize("body", NETWORKS, ids=lambda f: f.__name__)
def test_a_missing_wait_is_noticed(
    checked, plans: Plans, body, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each wait is left out once, and what it was for comes late."""
    scheduler = prepared(body)
    schedule = point_to_point(scheduler.unsearched())
    scheduler.emit(schedule)
    (plan,) = plans.made
    assert plan.waits
    plans.made.clear()
    plans.change = lambda number, plan: without(plan, plan.waits[number])
    names = [f"without{number}" for number in range(len(plan.waits))]
    compiled = Compiled(scheduler, {name: replace(schedule) for name in names})
    for name, wait in zip(names, plan.waits, strict=True):
        monkeypatch.setenv("TVM_IOS_DELAYS", str(2 * (wait.completed - 1) + wait.other))
        with pytest.raises(Exception, match="what another one had not completed"):
            compiled.run_often(name)


def without(plan: WaitPlan, wait: Wait) -> WaitPlan:
    return replace(plan, waits=tuple(other for other in plan.waits if other != wait))


def waits_of(plans: Plans, body, image: Sequence[int]) -> tuple[Wait, ...]:
    scheduler = prepared(body, image=tuple(image))
    single = scheduler.unsearched()
    by_tiles = tuple(replace(stage, partitioning="tiles") for stage in single.stages)
    scheduler.emit(point_to_point(replace(single, stages=by_tiles)))
    return plans.made[-1].waits


def test_channels_that_a_worker_computed_need_no_wait(plans: Plans) -> None:
    """Two workers share four blocks evenly: each pools what it has computed."""

    def body(emit, x):
        x = emit(conv(x, 64, 1, seed=1))
        x = emit(op.nn.conv2d(x, constant(64, 1, 3, 3, seed=2), padding=1, groups=64))
        x = emit(op.nn.max_pool2d(x, (3, 3), padding=1))
        return emit(conv(x, 20, 1, seed=3))

    waits = waits_of(plans, body, (1, 20, 12, 12))
    assert {wait.position for wait in waits}.isdisjoint({2})


def test_any_name_of_a_function() -> None:
    scheduler = prepared(branches)
    name = 'a "b" \\ ü'
    schedule = scheduler.unsearched()
    compiled = Compiled(scheduler, {name: point_to_point(schedule), "plain": schedule})
    np.testing.assert_array_equal(compiled.run(name), compiled.run("plain"))
