# SPDX-License-Identifier: Apache-2.0
"""The latency bounds of the candidates that searches ask for, batch by batch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..graph.dag import Candidate
from .cost_model import CostModel, LatencyBounds

Reading = Callable[[LatencyBounds], np.ndarray]
"""A function that returns seconds of candidates, float64 [n], from their latency bounds."""


def bounds(part: LatencyBounds) -> np.ndarray:
    """Return the latency of each candidate, or a bound of it."""
    return part.bounds()


def known_only(part: LatencyBounds) -> np.ndarray:
    """Return the latency of each candidate; infinity where it is not known."""
    return np.where(part.known(), part.bounds(), np.inf)


def stated(part: LatencyBounds) -> np.ndarray:
    """Return the latency of each candidate; its stated bound where it is not known."""
    return part.stated()


class PriceList:
    """The latency bounds of the candidates of one or several searches.

    A candidate is known by its place in the list.

    Parameters
    ----------
    cost : CostModel
        The cost model.
    """

    def __init__(self, cost: CostModel) -> None:
        self.cost = cost
        self._batches: list[list[Candidate]] = []
        self._parts: list[LatencyBounds] = []

    def __len__(self) -> int:
        return sum(map(len, self._batches))

    def add(self, candidates: list[Candidate], reading: Reading) -> np.ndarray:
        """Append candidates of operators of the network; return their seconds, float64 [n]."""
        self._batches.append(candidates)
        self._parts.append(self.cost.latency_bounds(candidates))
        return reading(self._parts[-1])

    def read(self, reading: Reading) -> np.ndarray:
        """Return the current seconds of all candidates, float64 [n]."""
        self._merge(lambda batch, later: later >= batch)
        return self._read(reading)

    def lookup(self, places: np.ndarray, slack: np.ndarray) -> None:
        """Look up near-optimal stages.

        Parameters
        ----------
        places : numpy.ndarray
            int64 [n]: the candidates to consider.
        slack : numpy.ndarray
            float64 [n]: what the rest of the cheapest schedule through each of them takes at least.
        """
        self._merge(lambda batch, later: True)
        rest = np.full(len(self), np.inf)
        rest[places] = slack
        for part in self._parts:  # one, if there is any
            part.lookup(lambda seconds: seconds + rest)

    def _read(self, reading: Reading) -> np.ndarray:
        return np.concatenate([np.zeros(0), *map(reading, self._parts)])

    def _merge(self, wanted: Callable[[int, int], bool]) -> None:
        """Merge batches, because each takes time: a last one and what came after it.

        Parameters
        ----------
        wanted : callable
            Whether to merge them, by the length of the batch and of what came after it.
        """
        later, first = 0, len(self._batches)
        for number in reversed(range(len(self._batches))):
            if later and wanted(len(self._batches[number]), later):
                first = number
            later += len(self._batches[number])
        if first < len(self._batches) - 1:
            merged = [candidate for batch in self._batches[first:] for candidate in batch]
            self._batches[first:] = [merged]
            self._parts[first:] = [self.cost.latency_bounds(merged)]
