# SPDX-License-Identifier: Apache-2.0
"""A block of a network as a search problem, and what a search of it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..graph.dag import Candidate, Dag
from ..schedule.pruning import ONE_BY_ONE, PruningLimits
from .problem import Limits, Problem, Replaceable


@dataclass(frozen=True)
class Block:
    """Operators of a network as a problem of their own, in which an operator is its position.

    Attributes
    ----------
    operators : sequence of int
        The operators, by their index in the network.
    dag : Dag
        Their graph.
    classes : sequence of int
        The merge class of each.
    replacements : sequence of sequence of int
        Sets that one operator may replace.
    pruning : PruningLimits
        The limits of its stages.
    """

    operators: Sequence[int]
    dag: Dag
    classes: Sequence[int]
    replacements: Sequence[Sequence[int]]
    pruning: PruningLimits

    @classmethod
    def of(
        cls,
        lowered: Problem,
        replacements: Replaceable,
        limits: Limits,
        operators: Sequence[int],
    ) -> Block:
        """Cut operators out of a network."""
        position = {op: i for i, op in enumerate(operators)}
        edges = [
            (position[u], position[v])
            for u, v in lowered.graph.edges
            if u in position and v in position
        ]
        return cls(
            operators,
            Dag(len(operators), edges),
            [replacements.classes[op] for op in operators],
            [[position[op] for op in ops] for ops in replacements.within(operators)],
            limits.pruning if "concurrent" in limits.strategies else ONE_BY_ONE,
        )

    def positions(self, stage: Candidate) -> Candidate:
        """Return a stage of the network as a stage of the block."""
        return of_operators(stage, {op: i for i, op in enumerate(self.operators)})


@dataclass(frozen=True)
class Found:
    """The result of a search.

    Attributes
    ----------
    stages : list of Candidate
        The stages, of operators of the network, in execution order.
    seconds : float
        The sum of their latencies, or of what bounds them.
    lower_bound : float or None
        No schedule is cheaper by latencies and stated bounds; None if no such bound is known.
    """

    stages: list[Candidate]
    seconds: float
    lower_bound: float | None

    @property
    def gap(self) -> float | None:
        """Seconds by which the schedule may exceed the cheapest one; None if unknown."""
        return None if self.lower_bound is None else max(0.0, self.seconds - self.lower_bound)


def of_operators(stage: Candidate, operators: Mapping[int, int] | Sequence[int]) -> Candidate:
    """Return the stage with each index replaced by the operator that it stands for."""
    return Candidate(tuple(sorted(operators[i] for i in stage.ops)), stage.strategy)
