# SPDX-License-Identifier: Apache-2.0
"""The speed-up that pairs of samples show, and its 95% interval.

The interval lies between two order statistics of the ratios. It holds for every distribution of
noise: each ratio lies above the true median with a probability of one half, so that their number
has a binomial distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np

from ...schedule.speedup import Speedup

FEWEST = 6
"""The least number of pairs that have a 95% interval."""

_RISK = 0.05
_FAR, _FAR_DEVIATIONS = 0.1, 5.0
_KEPT = 2 / 3


def speedup(ratios: Sequence[float]) -> Speedup | None:
    """Return the median of the ratios with its 95% interval; None if they cannot tell it.

    Ratios far from the others are left out: something slowed down one half of the pair. Where these
    are many, or few others remain, nothing can be told.

    Parameters
    ----------
    ratios : sequence of float
        The ratio of each pair, above zero.
    """
    near = sorted(_near(ratios)) if ratios else []
    if len(near) < max(FEWEST, _KEPT * len(ratios)):
        return None
    rank = _rank(len(near))
    return Speedup(float(np.median(near)), near[rank - 1], near[-rank])


def typical(ratios: Sequence[float]) -> float:
    """Return the median of one or more ratios, without those far from the others."""
    return float(np.median(_near(ratios)))


def _near(ratios: Sequence[float]) -> list[float]:
    """Return the ratios that are not far from their median, by the scale of the others."""
    logarithms = np.log(ratios)
    distances = np.abs(logarithms - np.median(logarithms))
    limit = max(_FAR, _FAR_DEVIATIONS * float(np.median(distances)))
    return [ratio for ratio, away in zip(ratios, distances, strict=True) if away <= limit]


def _rank(count: int) -> int:
    """Return the largest k for which the k-th smallest and largest enclose the median at 95%."""
    rank, tail = 0, 0.5**count
    while 2 * tail <= _RISK:
        rank += 1
        tail += comb(count, rank) * 0.5**count
    return rank
