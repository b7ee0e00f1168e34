# SPDX-License-Identifier: Apache-2.0
"""Plausible samples: impossible times are rejected, disturbed ones repeated or dropped."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np

Clock = Callable[[int], Sequence[float]]
"""A function that returns so many samples, in seconds."""

Turns = Callable[[Collection[str], int], Mapping[str, Sequence[float]]]
"""A function that returns so many samples of each name, in seconds, taken in turn."""

_TRIES = 3
_DISTURBED = 1.5  # ratio of median to minimum that indicates interference
_OUTLIER = 3.0  # ratio of a sample to the median that makes it an outlier


def sensible(samples: Iterable[float]) -> bool:
    """Return whether samples can be durations: finite and above zero."""
    return all(math.isfinite(s) and s > 0 for s in samples)


def take(clock: Clock, count: int) -> list[float]:
    """Take ``count`` samples; impossible ones are retried, and dropped if they remain so."""
    return take_turns(lambda names, number: dict.fromkeys(names, clock(number)), ("",), count)[""]


def take_turns(turns: Turns, names: Collection[str], count: int) -> dict[str, list[float]]:
    """Take ``count`` samples of each name, in turn; retries may add more.

    Parameters
    ----------
    turns : callable
        The sampler; see :data:`Turns`.
    names : collection of str
        The names to sample.
    count : int
        The number of samples of each name.
    """
    taken: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(_TRIES):
        missing = {name: count - len(taken[name]) for name in names if len(taken[name]) < count}
        if not missing:
            break
        for name, samples in turns(missing, max(missing.values())).items():
            taken[name] += [s for s in samples if sensible([s])]
    return taken


def take_steady(turns: Turns, count: int, expected: Mapping[str, float]) -> dict[str, list[float]]:
    """Take at least ``count`` samples of each name; take more while they look disturbed.

    Samples look disturbed if their median is far from their minimum. The disturbance, such as
    another process or a change of the clock frequency, may be over a moment later. Outliers are
    dropped.

    Parameters
    ----------
    turns : callable
        The sampler; see :data:`Turns`.
    count : int
        The number of samples.
    expected : mapping of str to float
        Seconds of an earlier run of each name, which count towards the minimum.
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
