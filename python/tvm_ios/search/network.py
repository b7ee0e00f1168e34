# SPDX-License-Identifier: Apache-2.0
"""The dynamic programming on a whole network, block by block."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm import relax

from ..graph.dag import Candidate, Dag
from ..support.errors import OptionError
from .core import ScheduleSpace, partition, partition_cost
from .cost_model import CostModel, LatencyBounds
from .problem import Limits, Problem, Replaceable
from .templates import Template, find_templates, own_template

_logger = logging.getLogger(__name__)

_ROUNDS = 3  # searches, each by corrected prices
_WHOLE = 50_000  # transitions: exploring and pricing them takes less than a second


@dataclass(frozen=True)
class BlockSearch:
    """The schedule space of one block and the latency bounds of its candidates.

    Attributes
    ----------
    block : sequence of int
        The operators of the block, by their index in the graph.
    space : ScheduleSpace
        The schedules, in which an operator is its position in the block.
    latency_bounds : LatencyBounds
        The latency bounds.
    """

    block: Sequence[int]
    space: ScheduleSpace
    latency_bounds: LatencyBounds

    def solve(self) -> list[Candidate]:
        """Return the stages of the schedule that is cheapest by the current bounds."""
        stages = self.space.solve(self.latency_bounds.bounds()).stages
        return [of_operators(stage, self.block) for stage in stages]


class NetworkSearch:
    """A search over the blocks of a network; of equal blocks only one is searched.

    Parameters
    ----------
    lowered : Problem
        The operator graph and its implementations.
    replacements : Replaceable
        Sets of operators that one operator may replace.
    results : sequence of relax.Var
        The values that the function returns.
    limits : Limits
        The limits of the search.

    Attributes
    ----------
    cut_cost : int
        The cut cost: branches and merges that the cuts between the blocks remove.
    whole : bool
        Whether the network was searched as a whole in the end, so that cuts cost nothing.
    """

    def __init__(
        self,
        lowered: Problem,
        replacements: Replaceable,
        results: Sequence[relax.Var],
        limits: Limits,
    ) -> None:
        self._lowered, self._results, self._limits = lowered, results, limits
        self._replacements = replacements
        dag, together = lowered.graph.dag, replacements.together
        self._blocks = partition(dag, limits.max_block_size, together)
        self.cut_cost = partition_cost(dag, self._blocks, together)
        self.whole = len(self._blocks) == 1

    def run(self, cost: CostModel) -> list[Candidate]:
        """Find the stages of the network, in execution order.

        The schedule that was found is run as a whole. If it does not take as long as its stages are
        priced, the prices are corrected and the search is repeated.
        """
        for _ in range(_ROUNDS):
            stages = self._search(cost)
            if cost.agrees(stages):
                break
        return stages

    def _search(self, cost: CostModel) -> list[Candidate]:
        """Find the stages that are cheapest by the current prices.

        The blocks are searched first. A network that has few enough schedules is then searched as
        a whole, which measures only what could improve on the blocks' schedule.
        """
        stages = self._search_blocks(cost)
        whole = None if self.whole else self._explore_whole(cost)
        if whole is None:
            return stages
        self.whole = True
        (better,) = _solve([whole], cost)
        return better if cost(better).sum() < cost(stages).sum() else stages

    def _search_blocks(self, cost: CostModel) -> list[Candidate]:
        """Find the stages of all blocks, in execution order; equal blocks share one result."""
        templates = self._templates(cost)
        own = list(dict.fromkeys(template.block for template in templates))
        found = dict(
            zip(own, _solve([self.explore(self._blocks[n], cost) for n in own], cost), strict=True)
        )
        return [
            of_operators(stage, template.counterparts)
            for template in templates
            for stage in found[template.block]
        ]

    def _explore_whole(self, cost: CostModel) -> BlockSearch | None:
        """Explore the schedules of the whole network; return None if they are too many.

        If every stage is measured that a search may choose, those across the cuts are not worth it.
        """
        if self._limits.measure_all:
            return None
        try:
            return self.explore([op for block in self._blocks for op in block], cost, _WHOLE)
        except OptionError:
            return None

    def explore(
        self, block: Sequence[int], cost: CostModel, max_transitions: int | None = None
    ) -> BlockSearch:
        """Explore the schedules of one block.

        Parameters
        ----------
        block : sequence of int
            Operators, by their index in the graph.
        cost : CostModel
            The cost model that bounds the latencies of the candidates.
        max_transitions : int, optional
            The limit of the exploration; see :class:`ScheduleSpace`.
        """
        position = {op: i for i, op in enumerate(block)}
        edges = [
            (position[u], position[v])
            for u, v in self._lowered.graph.edges
            if u in position and v in position
        ]
        side_by_side = "concurrent" in self._limits.strategies
        space = ScheduleSpace(
            Dag(len(block), edges),
            [self._replacements.classes[op] for op in block],
            [[position[op] for op in ops] for ops in self._replacements.within(block)],
            self._limits.max_group_size if side_by_side else 1,
            self._limits.max_num_groups if side_by_side else 1,
            max_transitions,
        )
        candidates = [of_operators(candidate, block) for candidate in space.candidates]
        return BlockSearch(block, space, cost.latency_bounds(candidates))

    def _templates(self, cost: CostModel) -> list[Template]:
        """Return the source of each block's schedule.

        Every block is its own source if a cost model of the user may tell equal blocks apart.
        """
        if not cost.equal_blocks_cost_the_same:
            templates = [own_template(number, block) for number, block in enumerate(self._blocks)]
        else:
            templates = find_templates(
                self._lowered, self._replacements, self._results, self._blocks
            )
        _logger.info(
            "%d operators in %d blocks, of which %d are searched and the others equal those; "
            "the cut cost is %d branches and merges",
            len(self._lowered.graph.operators),
            len(self._blocks),
            len({template.block for template in templates}),
            self.cut_cost,
        )
        return templates


def of_operators(stage: Candidate, operators: Mapping[int, int] | Sequence[int]) -> Candidate:
    """Return the stage with each index replaced by the operator that it stands for."""
    return Candidate(tuple(sorted(operators[i] for i in stage.ops)), stage.strategy)


def _solve(searches: Sequence[BlockSearch], cost: CostModel) -> list[list[Candidate]]:
    """Return the cheapest stages of each search.

    The dynamic program may choose stages of which only a bound is known. Their latencies are then
    determined and the problem is solved again, until all chosen stages are known.
    """
    for search in searches:
        search.latency_bounds.lookup(search.space.through)
    while True:
        found = [search.solve() for search in searches]
        if not cost.resolve([stage for stages in found for stage in stages]):
            return found
