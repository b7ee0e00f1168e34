# SPDX-License-Identifier: Apache-2.0
"""The protocol of cost models, which predict or measure how long a stage takes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from ..graph.dag import Candidate

BestThrough = Callable[[np.ndarray], np.ndarray]
"""A function from the candidates' latencies to those of the cheapest schedules through each of
them."""

Promising = Callable[[], Iterable[Candidate]]
"""A function that returns stages of near-optimal schedules, the most promising ones first."""


def nothing() -> Iterable[Candidate]:
    """Return no promising stages."""
    return ()


class LatencyBounds(Protocol):
    """Latency bounds of some candidates, which become exact as stages are resolved."""

    def bounds(self) -> np.ndarray:
        """Return the latencies in seconds, float64 [n].

        Where a latency is unknown, the entry is an optimistic lower bound of it.
        """

    def known(self) -> np.ndarray:
        """Return which of the bounds are latencies, bool [n]."""

    def stated(self) -> np.ndarray:
        """Return the latencies in seconds, float64 [n], and 90% bounds of those that are unknown.

        Nine of ten latencies lie above such a bound.
        """

    def lookup(self, through: BestThrough) -> None:
        """Look up the stages of near-optimal schedules in the database."""


class CostModel(Protocol):
    """A cost model, as the search uses it."""

    @property
    def operator_seconds(self) -> Mapping[Hashable, float]:
        """Seconds of each operator on one worker, by kernel key; the basis of work partitioning."""

    equal_blocks_cost_the_same: bool
    """Whether blocks of the same kernels have the same latencies, so that only one is searched."""

    @property
    def measurements(self) -> int:
        """The number of stages that were measured."""

    def __call__(self, candidates: Sequence[Candidate]) -> np.ndarray:
        """Return the latency of each candidate in seconds, float64 [n]."""

    def latency_bounds(self, candidates: Sequence[Candidate]) -> LatencyBounds:
        """Return what is known of the latencies of candidates, without measuring."""

    def floors(self, ops: Sequence[int]) -> np.ndarray:
        """Return a floor for each operator, in seconds, float64 [n].

        A stage of unknown latency is taken to cost at least the sum of its operators' floors, less
        what the best known stage saves against its own. Zeros if nothing is known of them.
        """

    def resolve(self, candidates: Sequence[Candidate], promising: Promising = nothing) -> int:
        """Determine the latencies of the stages of a schedule; return how many are new.

        The cost model may determine those of promising stages at the same time.
        """

    def agrees(self, candidates: Sequence[Candidate]) -> bool:
        """Run a whole schedule, and return whether it takes as long as its stages are priced.

        If it does not, the latencies of its stages have been corrected.
        """

    def in_network(self, candidates: Sequence[Candidate]) -> np.ndarray:
        """Return the latency of each stage of a whole schedule where it runs, float64 [n].

        These are the prices of a cost model that does not run schedules.
        """

    def partitioning(self, candidate: Candidate) -> str:
        """Return the fastest work partitioning of a candidate."""
