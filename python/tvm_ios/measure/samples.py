# SPDX-License-Identifier: Apache-2.0
"""Samples that can be believed: none that no clock can have shown, few that somebody disturbed."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np

Clock = Callable[[int], Sequence[float]]
"""From a number to so many samples, in seconds."""

Turns = Callable[[Collection[str], int], Mapping[str, Sequence[float]]]
"""From names and a number to so many samples of each, in seconds, taken in turn."""

_TRIES = 3
_DISTURBED = 1.5  # the median over the fastest sample, from which on a neighbour is suspected
_OUTLIER = 3.0  # a sample over the median, from which on it says nothing of the stage


def sensible(samples: Iterable[float]) -> bool:
    """Whether these can be durations: finite and above zero."""
    return all(math.isfinite(s) and s > 0 for s in samples)


def take(clock: Clock, count: int) -> list[float]:
    """``count`` samples; those that cannot be are taken again, and left out if they stay so."""
    return take_turns(lambda names, number: dict.fromkeys(names, clock(number)), ("",), count)[""]


def take_turns(turns: Turns, names: Collection[str], count: int) -> dict[str, list[float]]:
    """``count`` samples of each name, taken in turn; of those taken again there may be more."""
    taken: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(_TRIES):
        missing = {name: count - len(taken[name]) for name in names if len(taken[name]) < count}
        if not missing:
            break
        for name, samples in turns(missing, max(missing.values())).items():
            taken[name] += [s for s in samples if sensible([s])]
    return taken


def take_steady(turns: Turns, count: int, expected: Mapping[str, float]) -> dict[str, list[float]]:
    """``count`` samples or more: while the typical one is far from the fastest, others follow.

    Whatever disturbed the first ones, a neighbour's load or the clock's change of speed, may be
    over then. Outliers are left out.

    Parameters
    ----------
    turns : callable
    count : int
    expected : mapping of str to float
        Seconds that a run of each name took before, which counts as a sample where one is sought
        that is fast.
    """
    samples = take_turns(turns, expected, count)
    for _ in range(_TRIES - 1):
        disturbed = [
            name
            for name, times in samples.items()
            if times and np.median(times) >= _DISTURBED * min(expected[name], *times)
        ]
        if not disturbed:
            break
        for name, times in take_turns(turns, disturbed, count).items():
            samples[name] += times
    return {
        name: [s for s in times if s <= _OUTLIER * np.median(times)]
        for name, times in samples.items()
    }
