# SPDX-License-Identifier: Apache-2.0
"""Timing of stages on a simulated device: how often, in which work partitionings, how exactly."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping

import numpy as np
import pytest

from replay.device import simulated_speed
from replay.machine import MACHINES, Machine
from support.simulated_device import Simulation, Truth, branches
from tvm_ios.lowering.stages import AnyStage
from tvm_ios.measure.timing.in_network_trial import InNetworkTrial
from tvm_ios.measure.timing.stages import (
    Samples,
    StageTimer,
    fastest,
    relative_error,
    sensible,
    typical,
)

IMPOSSIBLE = [math.nan, math.inf, -math.inf, 0.0]
FAST, NEAR, FAR = 1e-3, 1.1e-3, 2e-3


def truth(stage: AnyStage) -> Mapping[str, float]:
    """Three partitionings; the back end's default is nearly the fastest."""
    factor = 1 + min(op for i in stage.implementations for op in i.operators)
    return {"far": FAR * factor, "fast": FAST * factor, "processors": NEAR * factor}


class Timed:
    """A timer of the stages of three operators, each alone."""

    def __init__(self, machine: Machine | None = None, truth: Truth = truth) -> None:
        self.simulation = Simulation(truth, branches(3), machine or Machine())
        speed = simulated_speed(self.simulation.machine)
        self.timer = StageTimer(self.simulation.stage_builder, {}, speed)
        self.stages = [self.simulation.stage_of(op) for op in range(3)]

    def trial(self, *wanted: int) -> InNetworkTrial:
        return InNetworkTrial(tuple(self.stages), frozenset(self.stages[op].key for op in wanted))

    def measure(self, *wanted: int) -> dict[Hashable, Samples]:
        return self.timer.measure(self.simulation.runner, self.trial(*wanted), {})


def test_the_wanted_stages_of_a_trial_have_their_own_times() -> None:
    timed = Timed()
    taken = timed.measure(0, 2)
    assert set(taken) == {timed.stages[op].key for op in (0, 2)}
    for op in (0, 2):
        medians = {name: typical(times) for name, times in taken[timed.stages[op].key].items()}
        assert medians == pytest.approx(truth(timed.stages[op]))


@pytest.mark.parametrize("lead", [2e-4, 3e-3])
def test_a_long_run_begins_with_something_that_warms_up(lead: float) -> None:
    """On the simulated device, a stage that begins in the first millisecond takes longer."""

    def long(stage: AnyStage) -> Mapping[str, float]:
        return {"processors": (lead, 3e-3, 3e-3)[stage.implementations[0].operators[0]]}

    timed = Timed(truth=long)
    (samples,) = timed.measure(1)[timed.stages[1].key].values()
    assert samples == pytest.approx([3e-3] * len(samples))


def test_a_slow_partitioning_is_timed_once() -> None:
    timed = Timed()
    (samples,) = timed.measure(1).values()
    assert len(samples["fast"]) == len(samples["processors"]) == 2 * len(samples["far"]) > 0


def test_refining_times_what_is_nearly_fastest_more_often() -> None:
    timed = Timed()
    known = timed.measure(1)
    ((key, samples),) = timed.timer.refine(timed.simulation.runner, timed.trial(1), known).items()
    assert set(samples) == {"fast", "processors"}
    assert len(samples["fast"]) > len(known[key]["fast"])


def test_other_stages_run_in_their_fastest_partitioning() -> None:
    """What a stage finds in caches depends on the stages before it."""
    timed = Timed()
    known = timed.measure(0, 1)
    ran: list[list[float]] = []
    time = timed.simulation.runner.time
    timed.simulation.runner.time = lambda stages, repeat: (
        ran.append([stage.seconds for stage in stages]) or time(stages, repeat)
    )
    timed.timer.measure(timed.simulation.runner, timed.trial(2), known)
    assert {tuple(seconds[:2]) for seconds in ran} == {(FAST, 2 * FAST)}


@pytest.mark.parametrize("kind", ["noise", "bursts", "drift"])
def test_medians_are_nearly_exact_on_a_noisy_machine(kind: str) -> None:
    errors = []
    for seed in range(8):
        timed = Timed(MACHINES[kind](seed))
        taken = timed.measure(0, 1, 2)
        true = {stage.key: truth(stage)["fast"] for stage in timed.stages}
        logs = [math.log(fastest(samples)[0] / true[key]) for key, samples in taken.items()]
        errors += list(logs - np.mean(logs))  # all are scaled to the same speed
    assert np.median(np.abs(errors)) < 0.015
    assert np.max(np.abs(errors)) < 0.15


@pytest.mark.parametrize("wrong", IMPOSSIBLE)
def test_a_stage_without_a_possible_time_has_none(wrong: float) -> None:
    timed = Timed()
    timed.simulation.truth = lambda stage: dict.fromkeys(truth(stage), wrong)
    assert timed.measure(0, 1, 2) == {}


def test_possible_times() -> None:
    assert sensible(np.array([math.nan, 2.0, 0.0, -1.0, math.inf, 3.0])) == [2.0, 3.0]


def test_the_fastest_is_no_lucky_one() -> None:
    lucky = {"lucky": [1.0, 2.0, 2.0, 2.1], "fast": [1.8, 1.8, 1.9, 1.9]}
    assert fastest(lucky) == (pytest.approx(1.85), "fast")


def test_old_samples_are_forgotten() -> None:
    assert typical([9.0] * 100 + [1.0] * 24) == 1.0


def test_few_samples_are_believed_less() -> None:
    few, many = {"tiles": [1.0, 1.1, 0.9]}, {"tiles": [1.0, 1.1, 0.9] * 20}
    assert relative_error({"tiles": [1.0]}) > relative_error(many) > 0
    assert relative_error(few) > relative_error(many)
    assert relative_error({"tiles": [1.0] * 50}) > 0
    assert relative_error(many, scale=0.2) > 1.5 * relative_error(many)
