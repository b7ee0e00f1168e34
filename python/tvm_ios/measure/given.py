# SPDX-License-Identifier: Apache-2.0
"""The cost model of a function that the user supplies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..graph.dag import Candidate
from ..graph.operators import OperatorGraph
from ..lowering.stages import AnyStageBuilder, estimated_seconds
from ..search.cost_model import BestThrough, Promising, nothing
from ..support.errors import CostError, OptionError

StageCost = Callable[[OperatorGraph, Sequence[Candidate]], np.ndarray]
"""A cost function of the user: latencies in seconds, float64 [n], for candidate stages of a graph.
Infinity excludes a stage."""


def given_cost(cost_model: str | StageCost) -> StageCost | None:
    """Return the user's prices; None where stages are measured.

    Raises
    ------
    OptionError
        For another word than ``measure``.
    """
    if callable(cost_model):
        return cost_model
    if cost_model != "measure":
        raise OptionError(f"cost_model must be 'measure' or a function, got {cost_model!r}.")
    return None


@dataclass(frozen=True)
class GivenBounds:
    """Latencies that are all known.

    Attributes
    ----------
    latencies : numpy.ndarray
        Seconds, float64 [n].
    """

    latencies: np.ndarray

    def bounds(self) -> np.ndarray:
        return self.latencies

    def known(self) -> np.ndarray:
        return np.ones(len(self.latencies), bool)

    def stated(self) -> np.ndarray:
        return self.latencies

    def lookup(self, through: BestThrough) -> None:
        """Do nothing: all latencies are known."""


class GivenCost:
    """A cost model that calls a function of the user.

    Work partitioning is based on floating-point operations.
    """

    measurements = 0
    equal_blocks_cost_the_same = False  # the function may distinguish them

    def __init__(self, function: StageCost, stage_builder: AnyStageBuilder) -> None:
        self._function, self._lowered = function, stage_builder.lowered
        self._partitioning = stage_builder.default_partitioning
        self.operator_seconds = estimated_seconds(stage_builder)

    def __call__(self, candidates: Sequence[Candidate]) -> np.ndarray:
        answer = self._function(self._lowered.graph, candidates)
        try:
            latencies = np.array(answer, "float64", ndmin=1)
        except (TypeError, ValueError) as error:
            raise CostError(f"A cost model must return one number per stage: {error}.") from error
        opaque = self._lowered.opaque
        for i, candidate in enumerate(candidates[: len(latencies)]):
            if len(candidate.ops) > 1 and opaque.intersection(candidate.ops):
                latencies[i] = np.inf
        return latencies

    def partitioning(self, candidate: Candidate) -> str:
        return self._partitioning

    def latency_bounds(self, candidates: Sequence[Candidate]) -> GivenBounds:
        return GivenBounds(self(candidates))

    def resolve(self, candidates: Sequence[Candidate], promising: Promising = nothing) -> int:
        """Return 0: a given latency is final."""
        return 0

    def agrees(self, candidates: Sequence[Candidate]) -> bool:
        """Return True: nothing is run."""
        return True

    def in_network(self, candidates: Sequence[Candidate]) -> np.ndarray:
        return self(candidates)

    def floors(self, ops: Sequence[int]) -> np.ndarray:
        """Return zeros: nothing is known of what the function may return."""
        return np.zeros(len(ops))
