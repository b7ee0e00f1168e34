# SPDX-License-Identifier: Apache-2.0
"""The dynamic programming on a whole network, block by block."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm import relax

from ..graph.dag import Candidate, Dag
from ..support.errors import OptionError
from .core import ScheduleSpace, candidate_of, partition, partition_cost
from .cost_model import CostModel, LatencyBounds
from .problem import Limits, Problem, Replaceable
from .templates import Template, find_templates, own_template

_logger = logging.getLogger(__name__)

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
        stages = map(candidate_of, self.space.solve(self.latency_bounds.bounds()).stages)
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

    def run(self, cost: CostModel) -> list[Candidate]:
        """Find the stages of all blocks, in execution order; equal blocks share one result.

        The dynamic programming may choose stages of which only a bound is known. Their latencies
        are then determined and the problem is solved again, until all chosen stages are known.
        """
        templates = self._templates(cost)
        own = dict.fromkeys(template.block for template in templates)
        searches = {number: self.explore(self._blocks[number], cost) for number in own}
        for search in searches.values():
            search.latency_bounds.lookup(search.space.through)
        while True:
            found = {number: search.solve() for number, search in searches.items()}
            if not cost.resolve([stage for stages in found.values() for stage in stages]):
                break
        return [
            of_operators(stage, template.counterparts)
            for template in templates
            for stage in found[template.block]
        ]

    def partition_gap(self, stages: Sequence[Candidate], cost: CostModel) -> float | None:
        """Return an upper bound of the seconds that the cuts cost, without measuring anything.

        The bound follows from what is known of the latencies. None if the whole network has too
        many schedules to explore, or if stages that cross the cuts would have to be measured.
        """
        if len(self._blocks) == 1:
            return 0.0
        if self._limits.measure_all:  # there is no bound for a stage that was not measured
            return None
        try:
            whole = self.explore([op for block in self._blocks for op in block], cost, _WHOLE)
        except OptionError:
            return None
        best = whole.space.solve(whole.latency_bounds.bounds()).latency
        return max(float(cost(stages).sum()) - best, 0.0)

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
