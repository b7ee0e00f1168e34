# SPDX-License-Identifier: Apache-2.0
"""The cost model of a function that the user supplies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..backend.shared.stages import AnyAssembler, estimated_seconds
from ..graph.dag import Candidate
from ..graph.operators import OperatorGraph
from ..search.cost_model import Through
from ..support.errors import CostError

StageCost = Callable[[OperatorGraph, Sequence[Candidate]], np.ndarray]
"""A cost function of the user: latencies in seconds, float64 [n], for candidate stages of a graph.
Infinity excludes a stage."""


@dataclass(frozen=True)
class FinalPrices:
    """Latencies that are all known.

    Attributes
    ----------
    latencies : numpy.ndarray
        Seconds, float64 [n].
    """

    latencies: np.ndarray

    def bounds(self) -> np.ndarray:
        return self.latencies

    def recall(self, through: Through) -> None:
        """Do nothing: all latencies are known."""


class GivenCost:
    """A cost model that calls a function of the user.

    Work partitioning is based on floating-point operations.
    """

    measurements = 0
    equal_blocks_cost_the_same = False  # the function may distinguish them

    def __init__(self, function: StageCost, assembler: AnyAssembler) -> None:
        self._function, self._lowered = function, assembler.lowered
        self._division = assembler.usual
        self.operator_seconds = estimated_seconds(assembler)

    def __call__(self, candidates: Sequence[Candidate]) -> np.ndarray:
        answer = self._function(self._lowered.graph, candidates)
        try:
            latencies = np.array(answer, "float64", ndmin=1)
        except (TypeError, ValueError) as error:
            raise CostError(f"A cost model must return one number per stage: {error}.") from error
        alone = self._lowered.alone
        for i, candidate in enumerate(candidates[: len(latencies)]):
            if len(candidate.ops) > 1 and alone.intersection(candidate.ops):
                latencies[i] = np.inf
        return latencies

    def division(self, candidate: Candidate) -> str:
        return self._division

    def prices(self, candidates: Sequence[Candidate]) -> FinalPrices:
        return FinalPrices(self(candidates))

    def settle(self, candidates: Sequence[Candidate]) -> int:
        """Return 0: a given latency is final."""
        return 0
