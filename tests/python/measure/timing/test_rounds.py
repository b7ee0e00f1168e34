# SPDX-License-Identifier: Apache-2.0
"""Rounds of models: in which order they run, and which samples count."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations, pairwise

import pytest

from tvm_ios.measure.timing.rounds import Rounds

NAMES = ["a", "b", "c"]


def noted() -> tuple[Rounds, list[str]]:
    """Rounds of three models, and in which order they run."""
    ran: list[str] = []

    def timer(name: str) -> Callable[[], float]:
        return lambda: ran.append(name) or 1.0

    return Rounds({name: timer(name) for name in NAMES}), ran


def shown(*samples: float) -> Rounds:
    """A model whose clock shows these seconds."""
    return Rounds({"a": iter(samples).__next__})


def test_the_samples_of_a_model_are_not_neighbours() -> None:
    rounds, ran = noted()
    for number in range(6):
        rounds.take(NAMES)
        taken = ran[6 * number :]
        assert sorted(taken) == sorted(2 * NAMES)
        assert taken[:3] == taken[3:]


def test_no_model_always_follows_the_same_one() -> None:
    rounds, ran = noted()
    for _ in range(6):
        rounds.take(NAMES)
    assert {ran[6 * number] for number in range(6)} == set(NAMES)
    assert len({(one, other) for one, other in pairwise(ran) if one != other}) == 6


def test_each_of_two_models_is_first_as_often() -> None:
    rounds, ran = noted()
    for _ in range(6):
        rounds.take(NAMES)
    orders = [ran[6 * number : 6 * number + 3] for number in range(6)]
    for one, other in combinations(NAMES, 2):
        assert sum(order.index(one) < order.index(other) for order in orders) == 3


def test_a_lucky_sample_is_not_the_median() -> None:
    rounds = shown(1.0, 1.0, 0.1, 1.2, 1.3, 1.0)
    for _ in range(3):
        rounds.take(["a"])
    assert rounds.medians() == {"a": 1.0}


def test_a_model_whose_samples_differ_is_left_out() -> None:
    rounds = shown(1.0, 1.2, 1.0, 1.08)
    assert rounds.take(["a"]) == {}
    assert rounds.take(["a"]) == {"a": pytest.approx(math.sqrt(1.08))}
    assert rounds.medians() == {"a": pytest.approx(1.04)}  # of all


@pytest.mark.parametrize("wrong", [math.nan, math.inf, 0.0, -1.0])
def test_an_impossible_sample_tells_nothing(wrong: float) -> None:
    rounds = shown(1.0, wrong, wrong, wrong)
    assert rounds.take(["a"]) == {}
    assert rounds.take(["a"]) == {}
    assert rounds.medians() == {"a": 1.0}
