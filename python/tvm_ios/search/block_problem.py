# SPDX-License-Identifier: Apache-2.0
"""A block of a network as a search problem, and what a search of it finds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..graph.dag import Candidate, Dag
from ..schedule.pruning import ONE_BY_ONE, PruningLimits
from .bundles import Bundles
from .problem import Limits, Replaceable


@dataclass(frozen=True)
class Block:
    """Operators of a network as a problem of their own, in which an operator is its position.

    Attributes
    ----------
    bundles : Bundles
        The operators of the network.
    operators : sequence of int
        Those of the block that stand for bundles, by their index in the network.
    dag : Dag
        Their graph.
    classes : sequence of int
        The merge class of each.
    replacements : sequence of sequence of int
        Sets that one operator may replace.
    pruning : PruningLimits
        The limits of its stages.
    """

    bundles: Bundles
    operators: Sequence[int]
    dag: Dag
    classes: Sequence[int]
    replacements: Sequence[Sequence[int]]
    pruning: PruningLimits

    @classmethod
    def of(
        cls, bundles: Bundles, replacements: Replaceable, limits: Limits, operators: Iterable[int]
    ) -> Block:
        """Cut operators out of a network."""
        homes = bundles.within(operators)
        position = {op: i for i, op in enumerate(homes)}
        return cls(
            bundles,
            homes,
            bundles.dag(homes),
            [replacements.classes[op] for op in homes],
            [[position[op] for op in ops] for ops in replacements.within(homes)],
            limits.pruning if "concurrent" in limits.strategies else ONE_BY_ONE,
        )

    def positions(self, stage: Candidate) -> Candidate:
        """Return a stage of the network as a stage of the block."""
        position = {op: i for i, op in enumerate(self.operators)}
        places = (position[op] for op in stage.ops if op in position)
        return Candidate(tuple(sorted(places)), stage.strategy)

    def in_network(self, stage: Candidate) -> Candidate:
        """Return a stage of the block as a stage of the network."""
        return self.bundles.stage([self.operators[i] for i in stage.ops], stage.strategy)


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
