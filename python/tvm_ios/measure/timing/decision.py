# SPDX-License-Identifier: Apache-2.0
"""The decision between models: which one is fastest, and whether that is more than noise.

The fastest candidate is chosen on a few rounds of all models. It then runs against the baseline on
fresh rounds, and only those say by how much it is faster. The fastest of several looks faster than
it is on the samples that it was chosen by (the winner's curse).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...schedule.speedup import Speedup
from .models import Timers
from .paired import FEWEST, speedup, typical
from .rounds import Rounds

_CHOICE_SECONDS, _CHOICE_ROUNDS = 0.8, (2, 7)
_PROOF_SECONDS, _PROOF_ROUNDS = 2.5, (FEWEST, 48)
_LOOK = 6  # rounds after which the interval is looked at
_PATIENCE = 2  # rounds that are tried for each that is needed, where the machine changes in them
_NARROW = 0.01  # width of an interval that is narrow enough
_CLEAR = 0.2  # the same as a share of the gain

Ratios = dict[str, list[float]]
"""Seconds of the baseline over those of a model, in the rounds in which both ran steadily."""


@dataclass(frozen=True)
class Decision:
    """What was decided.

    Attributes
    ----------
    name : str
        The model to use: the baseline unless a candidate is proven to be faster.
    speedup : Speedup or None
        That of the best candidate over the baseline; None if the machine was too busy to tell.
    seconds : mapping of str to float
        Seconds of each model, but of those whose samples were all impossible. Where the machine
        allowed it, they are in the ratios of the rounds.
    """

    name: str
    speedup: Speedup | None
    seconds: Mapping[str, float]


def decide(
    timers: Timers,
    baseline: str,
    candidates: Sequence[str],
    now: Callable[[], float] = time.monotonic,
) -> Decision:
    """Time models against each other, and return which one to use.

    Parameters
    ----------
    timers : mapping of str to callable
        All models to time; see :data:`tvm_ios.measure.timing.models.Timers`.
    baseline : str
        The model that is used unless another one is faster.
    candidates : sequence of str
        The models to choose from. Without any, the models are timed only.
    now : callable
        Returns the time in seconds, by which the rounds are limited.
    """
    rounds = Rounds(timers)
    ratios: Ratios = {name: [] for name in timers}
    _repeat(rounds, ratios, baseline, list(timers), _CHOICE_SECONDS, _CHOICE_ROUNDS, now)
    gains = {name: typical(found) for name, found in ratios.items() if found}
    best = max((n for n in candidates if n in gains), key=gains.__getitem__, default=None)
    proven = None
    if best is not None:
        fresh: Ratios = {baseline: [], best: []}
        _repeat(rounds, fresh, baseline, list(fresh), _PROOF_SECONDS, _PROOF_ROUNDS, now)
        proven = speedup(fresh[best])
        if proven is not None:
            gains[best] = proven.ratio
    name = best if best is not None and proven is not None and proven.faster else baseline
    return Decision(name, proven, _seconds(rounds.medians(), gains, baseline))


def _repeat(
    rounds: Rounds,
    ratios: Ratios,
    baseline: str,
    names: Sequence[str],
    seconds: float,
    limits: tuple[int, int],
    now: Callable[[], float],
) -> None:
    """Take rounds, and add their ratios, until there are enough or the time is over.

    Slow models may take longer, until they have the fewest rounds. When to stop depends on the
    width of the interval, not on whether 1 lies in it: a test that is repeated until it succeeds
    succeeds too often.
    """
    fewest, most = limits
    begin = now()
    shortest = math.inf
    for tried in range(_PATIENCE * most):
        count = min(len(ratios[name]) for name in names)
        spent = now() - begin
        if count >= most or (count >= fewest and spent > seconds):
            return
        if tried and spent > max(seconds, _PATIENCE * fewest * shortest):
            return
        if count > fewest and count % _LOOK == 0 and all(map(_narrow, ratios.values())):
            return
        taken = rounds.take(names)
        shortest = min(shortest, now() - begin - spent)
        for name in taken if baseline in taken else ():
            ratios[name].append(taken[baseline] / taken[name])


def _narrow(ratios: Sequence[float]) -> bool:
    found = speedup(ratios)
    if found is None:
        return False
    return found.high - found.low <= max(_NARROW, _CLEAR * abs(found.ratio - 1))


def _seconds(
    medians: Mapping[str, float], gains: Mapping[str, float], baseline: str
) -> dict[str, float]:
    """Return the seconds of each model: the baseline's over the gain, so that the two agree."""
    return {
        name: medians[baseline] / gains[name] if name in gains and baseline in medians else seconds
        for name, seconds in medians.items()
    }
