# SPDX-License-Identifier: Apache-2.0
"""Statistics of a comparison: ratios within a round, and how far they can be trusted.

All contenders run in every round, close together in time, so that a ratio within a round is free
of most of the machine's drift. The interval around the median of the ratios is the 95% percentile
bootstrap over rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_SAMPLES = 2000
_PERCENTILES = (2.5, 97.5)

Rounds = Sequence[float]


@dataclass(frozen=True)
class Estimate:
    """A median and its 95% interval."""

    median: float
    low: float
    high: float


def ratio(slow: Rounds, fast: Rounds) -> Estimate:
    """How many times as long ``slow`` takes as ``fast``, round by round."""
    return geometric_mean([(slow, fast)])


def geometric_mean(pairs: Sequence[tuple[Rounds, Rounds]]) -> Estimate:
    """The geometric mean over networks of the median ratio, (slow, fast) each.

    For the interval the rounds of each network are drawn anew, independently of the others.
    """
    random = np.random.default_rng(0)
    point, drawn = 0.0, np.zeros(_SAMPLES)
    for slow, fast in pairs:
        ratios = np.log(np.asarray(slow) / np.asarray(fast))
        samples = random.choice(ratios, (_SAMPLES, len(ratios)))
        point += float(np.median(ratios)) / len(pairs)
        drawn += np.median(samples, axis=1) / len(pairs)
    low, high = np.percentile(drawn, _PERCENTILES)
    return Estimate(*(float(np.exp(value)) for value in (point, low, high)))
