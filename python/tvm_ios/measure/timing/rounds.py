# SPDX-License-Identifier: Apache-2.0
"""Rounds in which whole models are timed in turn, so that their samples can be paired.

A round times every model twice, once in each of two passes. Models whose two samples differ are
left out of the round: the machine changed between them. As the passes enclose each other, a
disturbance cannot hide between the two samples of one model unless it also covers another's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .models import Timers
from .stages import sensible

_CHANGED = 0.1
"""The relative difference of two samples of a model that indicates a change of the machine."""
_ROUNDS = 11


class Rounds:
    """Takes rounds, and keeps what they took.

    Parameters
    ----------
    timers : mapping of str to callable
        The models, by name.
    """

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._samples: dict[str, list[float]] = {name: [] for name in timers}
        self._taken = 0

    def take(self, names: Sequence[str]) -> dict[str, float]:
        """Take a round, and return the seconds of each model that ran at one speed throughout.

        The order changes from round to round, so that no model is always first, or always behind
        the same one. The samples of a round are also kept for :meth:`medians`.

        Parameters
        ----------
        names : sequence of str
            The models that take part.
        """
        order = _ordered(names, self._taken)
        self._taken += 1
        passes = [{name: self._timers[name]() for name in order} for _ in range(2)]
        for name in order:
            self._samples[name] += [p[name] for p in passes if sensible([p[name]])]
        pairs = {name: [p[name] for p in passes] for name in order}
        return {
            name: math.sqrt(pair[0]) * math.sqrt(pair[1])
            for name, pair in pairs.items()
            if sensible(pair) == pair and max(pair) <= (1 + _CHANGED) * min(pair)
        }

    def medians(self) -> dict[str, float]:
        """Return the median seconds of each model that has any, steady or not."""
        return {name: float(np.median(times)) for name, times in self._samples.items() if times}


def median_seconds(timers: Timers) -> dict[str, float]:
    """Return the median seconds of each model, from a fixed number of rounds."""
    rounds = Rounds(timers)
    for _ in range(_ROUNDS):
        rounds.take(list(timers))
    return rounds.medians()


def _ordered(names: Sequence[str], number: int) -> list[str]:
    """Return the names in the order of a round: rotated, and backwards every other time."""
    first = number // 2 % len(names)
    rotated = [*names[first:], *names[:first]]
    return rotated[::-1] if number % 2 else rotated
