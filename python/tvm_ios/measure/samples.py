# SPDX-License-Identifier: Apache-2.0
"""Samples that can be believed: none that no clock can have shown, few that somebody disturbed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

Clock = Callable[[int], Sequence[float]]
"""From a number to so many samples, in seconds."""

_TRIES = 3
_DISTURBED = 1.5  # the median over the fastest sample, from which on a neighbour is suspected
_OUTLIER = 3.0  # a sample over the median, from which on it says nothing of the stage


def sensible(samples: Iterable[float]) -> bool:
    """Whether these can be durations: finite and above zero."""
    return all(math.isfinite(s) and s > 0 for s in samples)


def take(clock: Clock, count: int) -> list[float]:
    """``count`` samples; those that cannot be are taken again, and left out if they stay so."""
    taken: list[float] = []
    for _ in range(_TRIES):
        taken += [s for s in clock(count - len(taken)) if sensible([s])]
        if len(taken) == count:
            break
    return taken


def take_steady(clock: Clock, count: int, expected: float) -> list[float]:
    """``count`` samples or more: while the typical one is far from the fastest, others follow.

    Whatever disturbed the first ones, a neighbour's load or the clock's change of speed, may be
    over then. Outliers are left out.

    Parameters
    ----------
    clock : callable
    count : int
    expected : float
        Seconds that a run took before, which counts as a sample where one is sought that is fast.
    """
    samples = take(clock, count)
    for _ in range(_TRIES - 1):
        if not samples or np.median(samples) < _DISTURBED * min(expected, *samples):
            break
        samples += take(clock, count)
    return [s for s in samples if s <= _OUTLIER * np.median(samples)]
