# SPDX-License-Identifier: Apache-2.0
"""What answers "how long does this stage take"."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .errors import CostError
from .graph.operators import OperatorGraph
from .lower.assemble import Assembler
from .search import Candidate

StageCost = Callable[[OperatorGraph, Sequence[Candidate]], np.ndarray]
"""A cost model of the user's: latencies in seconds, float64 [n], for candidate stages of a graph;
infinity for a stage that must not be chosen."""


Through = Callable[[np.ndarray], np.ndarray]
"""From the candidates' latencies to that of the cheapest schedule with each of them."""


class Prices(Protocol):
    """What is known of the latencies of some candidates; more with every stage that is settled."""

    def bounds(self) -> np.ndarray:
        """Float64 [n]: the latency where it is known, else a bound that it is thought to exceed."""

    def recall(self, through: Through) -> None:
        """Look up what a database has of the stages that schedules near the cheapest rest on."""


class CostModel(Protocol):
    """A cost model, as the scheduler uses it."""

    @property
    def operator_seconds(self) -> Mapping[Hashable, float]:
        """Time of operators on one worker, by kernel key: what work is divided by."""

    @property
    def measurements(self) -> int:
        """Stages that were measured."""

    def __call__(self, candidates: Sequence[Candidate]) -> np.ndarray:
        """Latency in seconds per candidate."""

    def prices(self, candidates: Sequence[Candidate]) -> Prices:
        """What is known of candidates without finding out more."""

    def settle(self, candidates: Sequence[Candidate]) -> int:
        """Find out what the stages of a schedule take; returns how many prices are new."""

    def division(self, candidate: Candidate) -> str:
        """How the work of a candidate is divided best."""


@dataclass(frozen=True)
class FinalPrices:
    """Latencies that are known.

    Attributes
    ----------
    latencies : numpy.ndarray
        Seconds, float64 [n].
    """

    latencies: np.ndarray

    def bounds(self) -> np.ndarray:
        return self.latencies

    def recall(self, through: Through) -> None:
        """There is nothing to look up."""


class GivenCost:
    """A function of the user's as a cost model; work is divided by floating-point operations."""

    measurements = 0

    def __init__(self, function: StageCost, assembler: Assembler) -> None:
        self._function, self._lowered = function, assembler.lowered
        self._division = assembler.usual
        self.operator_seconds = estimated_seconds(assembler)

    def __call__(self, candidates: Sequence[Candidate]) -> np.ndarray:
        answer = self._function(self._lowered.graph, candidates)
        try:
            latencies = np.array(answer, "float64", ndmin=1)
        except (TypeError, ValueError) as error:
            raise CostError(f"A cost model must return one number a stage: {error}.") from error
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
        """A given price is final."""
        return 0


def estimated_seconds(assembler: Assembler) -> dict[Hashable, float]:
    """Operators' times where nothing was measured: floating-point operations plus bytes moved.

    Only their proportions count; a byte is taken for ten operations.
    """
    lowered = assembler.lowered
    result = {}
    for op, implementation in zip(lowered.graph.operators, lowered.implementations, strict=True):
        if implementation is not None:
            moved = sum(spec.num_bytes for spec in implementation.kernel.tensors)
            result[implementation.kernel.key] = 1e-11 * (op.flops + 10 * moved)
    return result
