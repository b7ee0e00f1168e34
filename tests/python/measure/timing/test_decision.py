# SPDX-License-Identifier: Apache-2.0
"""The decision between models, by clocks that are noisy, drift, jump or lie."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from tvm_ios.measure.timing.decision import Decision, decide
from tvm_ios.measure.timing.models import runs_of_window, window_timers
from tvm_ios.measure.timing.rounds import median_seconds

SEEDS = range(100)
EQUAL = {"sequential": 5e-3, "greedy": 5e-3, "scheduled": 5e-3}
FASTER = {"sequential": 5.15e-3, "greedy": 5.1e-3, "scheduled": 5e-3}

Disturbance = Callable[["Machine", str, float], float]


@dataclass
class Machine:
    """Models on a machine whose samples are noisy, and disturbed by the time or at random."""

    truth: Mapping[str, float]
    seed: int = 0
    noise: float = 0.02
    disturb: Disturbance = lambda machine, name, seconds: seconds
    time: float = 0.0
    samples: list[str] = field(default_factory=list)
    window: float = 0.02

    def __post_init__(self) -> None:
        self.draw = np.random.default_rng(self.seed)

    def sample(self, name: str) -> float:
        noise = math.exp(self.noise * self.draw.standard_normal())
        seconds = self.disturb(self, name, self.truth[name] * noise)
        self.samples.append(name)
        if math.isfinite(seconds):
            self.time += max(self.window, seconds)
        return seconds

    def decide(self) -> Decision:
        timers = {name: lambda name=name: self.sample(name) for name in self.truth}
        candidates = [name for name in self.truth if name != "sequential"]
        return decide(timers, "sequential", candidates, lambda: self.time)


def decisions(truth: Mapping[str, float], **properties: object) -> list[Decision]:
    return [Machine(truth, seed, **properties).decide() for seed in SEEDS]


def test_equal_models_are_not_told_apart() -> None:
    found = decisions(EQUAL)
    assert sum(decision.name == "sequential" for decision in found) >= 95
    assert sum(d.speedup.low <= 1 <= d.speedup.high for d in found if d.speedup) >= 93


def test_a_small_gain_is_found() -> None:
    found = decisions(FASTER)
    assert sum(decision.name == "scheduled" for decision in found) >= 95
    gains = {name: FASTER["sequential"] / seconds for name, seconds in FASTER.items()}
    covered = [d.speedup.low <= gains[d.name] <= d.speedup.high for d in found if d.speedup]
    assert len(covered) == 100
    assert sum(covered) >= 93
    for decision in found:
        assert decision.speedup is not None
        told = decision.seconds["sequential"] / decision.seconds[decision.name]
        assert decision.name == "sequential" or told == pytest.approx(decision.speedup.ratio)


def test_the_best_of_many_equal_models_gains_nothing() -> None:
    """The fastest of the samples that it was chosen by is not proven by them."""
    many = {"sequential": 5e-3, **{f"other {i}": 5e-3 for i in range(12)}}
    assert sum(d.name == "sequential" for d in decisions(many, noise=0.01)) >= 95


def bursts(slowed: str) -> Disturbance:
    """Now and then one model takes twice as long, both times of a round."""

    def disturb(machine: Machine, name: str, seconds: float) -> float:
        burst = machine.time % 0.7 < 0.15
        return 2 * seconds if burst and name == slowed else seconds

    return disturb


@pytest.mark.parametrize("slowed", ["sequential", "scheduled"])
def test_bursts(slowed: str) -> None:
    """They are no gain, and hide few."""
    equal, faster = (decisions(truth, disturb=bursts(slowed)) for truth in (EQUAL, FASTER))
    assert sum(decision.name == "sequential" for decision in equal) >= 95
    assert sum(decision.name == "scheduled" for decision in faster) >= 90


def drift(machine: Machine, name: str, seconds: float) -> float:
    """The machine becomes slower by 15% in three seconds."""
    return seconds * (1 + 0.05 * machine.time)


def step(machine: Machine, name: str, seconds: float) -> float:
    """It becomes ten times slower from one moment to the next."""
    return seconds * (10 if machine.time > 1.5 else 1)


def flicker(machine: Machine, name: str, seconds: float) -> float:
    """It is ten times slower every other second, in which the clock of everything halves."""
    return seconds * (10 if machine.time % 2 > 1 else 1)


def sometimes(value: float) -> Disturbance:
    """One sample in ten is impossible."""
    return lambda machine, name, seconds: value if machine.draw.random() < 0.1 else seconds


CLOCKS = {
    "drifts": drift,
    "steps": step,
    "flickers": flicker,
    "zeros": sometimes(0.0),
    "negative": sometimes(-1e-3),
    "NaN": sometimes(math.nan),
    "infinite": sometimes(math.inf),
    "tenfold": lambda machine, _, s: 10 * s if machine.draw.random() < 0.05 else s,
}


@pytest.mark.parametrize("disturb", CLOCKS.values(), ids=CLOCKS)
@pytest.mark.parametrize(("truth", "fastest"), [(EQUAL, "sequential"), (FASTER, "scheduled")])
def test_clocks(disturb: Disturbance, truth: Mapping[str, float], fastest: str) -> None:
    found = decisions(truth, disturb=disturb)
    assert sum(decision.name == fastest for decision in found) >= 95 - 5 * (truth is FASTER)
    assert all(math.isfinite(s) and s > 0 for d in found for s in d.seconds.values())


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_impossible_samples_decide_nothing(value: float) -> None:
    lies = Machine(FASTER, disturb=lambda *_: value)
    assert lies.decide() == Decision("sequential", None, {})
    one = Machine(FASTER, disturb=lambda _, name, s: value if name == "scheduled" else s).decide()
    assert "scheduled" not in one.seconds
    assert one.name in ("greedy", "sequential")
    none = Machine(FASTER, disturb=lambda _, name, s: value if name == "sequential" else s).decide()
    assert (none.name, none.speedup) == ("sequential", None)


def test_constant_samples() -> None:
    assert Machine(EQUAL, noise=0.0).decide().name == "sequential"
    found = Machine(FASTER, noise=0.0).decide()
    assert found.name == "scheduled"
    assert found.speedup is not None
    assert found.speedup.low == pytest.approx(1.03)


def test_a_machine_that_always_changes_tells_nothing() -> None:
    found = decisions(FASTER, noise=0.5)
    assert all(decision.name == "sequential" for decision in found)
    assert any(decision.speedup is None for decision in found)
    assert all(set(decision.seconds) == set(FASTER) for decision in found)


@pytest.mark.parametrize("favoured", [0, 1])
def test_no_position_in_a_round_is_favoured(favoured: int) -> None:
    """Every other sample is faster, whatever runs."""

    def alternate(machine: Machine, name: str, seconds: float) -> float:
        return seconds * (0.96 if len(machine.samples) % 2 == favoured else 1.0)

    machine = Machine({"sequential": 5e-3, "scheduled": 5e-3}, 0, 0.0, alternate)
    found = machine.decide()
    assert found.name == "sequential"
    assert found.speedup is not None
    assert not found.speedup.slower


@pytest.mark.parametrize("seconds", [1e-3, 0.1, 3.0])
def test_how_long_it_takes(seconds: float) -> None:
    """Some seconds; slow models are run as often as an interval needs."""
    truth = {"sequential": seconds, "scheduled": seconds, "greedy": seconds}
    machine = Machine(truth, noise=0.04)
    machine.decide()
    assert machine.time <= max(5.0, 42 * seconds)
    assert machine.samples.count("sequential") >= 16


def test_a_machine_that_stalls_is_not_waited_for() -> None:
    """After a while samples take seconds, as where a worker waits for a core at each barrier."""

    def stall(machine: Machine, name: str, seconds: float) -> float:
        return seconds * (machine.draw.uniform(1, 800) if len(machine.samples) > 50 else 1)

    stalls = Machine(EQUAL, disturb=stall)
    assert stalls.decide() == Decision("sequential", None, pytest.approx(EQUAL, rel=0.5))
    assert stalls.time < 25


def test_a_clear_case_is_soon_decided() -> None:
    clear, unclear = Machine({**EQUAL, "scheduled": 2.5e-3}), Machine(EQUAL)
    clear.decide()
    unclear.decide()
    assert clear.time < 0.7 * unclear.time


def test_models_without_a_candidate_are_timed() -> None:
    found = decide({"sequential": lambda: 2.0, "launched": lambda: 3.0}, "sequential", [])
    assert (found.name, found.speedup) == ("sequential", None)
    assert found.seconds == pytest.approx({"sequential": 2.0, "launched": 3.0})
    assert median_seconds({"a": lambda: 2.0, "b": lambda: math.nan}) == {"a": 2.0}


@pytest.mark.parametrize(
    ("samples", "runs"),
    [
        ([1e-3] * 4, 20),
        ([9.0, 1e-3, 1e-4, 1e-3], 20),
        ([1.0, 1.0], 1),
        ([0.0] * 4, 1),
        ([-1e-3] * 4, 1),
        ([math.nan] * 4, 1),
        ([1e-3, math.nan, 1e-3, 1e-3], 20),
        ([1e-30] * 4, 2000),
        ([1e-3, math.inf], 1),
    ],
)
def test_runs_of_a_window(samples: list[float], runs: int) -> None:
    clock = iter(samples)
    assert runs_of_window(lambda: next(clock)) == runs
    clock = iter(samples)
    asked: list[int] = []
    timers = window_timers(["a"], lambda _, number: asked.append(number) or clock.__next__)
    assert asked == [1, runs]
    assert list(timers) == ["a"]
