# SPDX-License-Identifier: Apache-2.0
"""The dynamic programming on a whole network, block by block."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tvm import relax

from ..graph.dag import Candidate
from ..support.errors import OptionError
from .block import Block, BlockSearch, ExploredBlock, Found, search_block, solve_all
from .bundles import Bundles
from .core import partition, partition_cost
from .cost_model import CostModel
from .cuts import SearchOf, search_cuts
from .price_list import PriceList
from .problem import Limits, Problem, Replaceable
from .templates import Template, find_templates, own_template

_logger = logging.getLogger(__name__)

_ROUNDS = 3  # schedules that are run as a whole
# Transitions up to which all schedules are explored. Pricing them takes less than a second.
_COMPLETE = 100_000  # of a block
_WHOLE = 50_000  # of the network, after its blocks
_AROUND_CUT = 20_000  # of the stages around a cut: there are many cuts


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
    gap : float or None
        Seconds, by the prices of the search, by which the schedule may exceed the cheapest one that
        the cuts allow. None if unknown, and before the search.
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
        self._bundles = Bundles.of(lowered, replacements)
        homes = self._bundles.within(range(len(lowered.graph.operators)))
        dag = self._bundles.dag(homes)
        together = [replacements.together[op] for op in homes]
        blocks = partition(dag, limits.max_block_size, together)
        self.cut_cost = partition_cost(dag, blocks, together)
        self._blocks = [self._bundles.members([homes[i] for i in block]) for block in blocks]
        self.whole = len(self._blocks) == 1
        self.gap: float | None = None

    def run(self, cost: CostModel) -> list[Candidate]:
        """Find the stages of the network, in execution order.

        The blocks are searched first. A network that has few enough schedules is then searched as
        a whole, which measures only what could improve on the blocks' schedule. In any other, the
        stages around each cut are searched again.

        The schedule that was found is run as a whole. If it does not take as long as its stages are
        priced, the prices are corrected and the search is repeated.
        """
        templates = self._templates(cost)
        own = dict.fromkeys(template.block for template in templates)
        prices = PriceList(cost)
        searches = {number: self.explore(self._blocks[number], cost, prices) for number in own}
        whole: BlockSearch | None = None
        for number in range(_ROUNDS + 1):
            blocks = self._search_blocks(templates, searches, cost)
            # If every stage is measured that a search may choose, those across cuts are not worth
            # it.
            across = len(self._blocks) > 1 and not self._limits.measure_all
            if across and number == 0:
                whole = self._explore_whole(cost)
            stages = self._search_across(blocks, whole, cost) if across else _stages_of(blocks)
            if number == _ROUNDS or cost.agrees(stages):
                break
        return self._bundles.completed(stages)

    def _search_blocks(
        self, templates: Sequence[Template], searches: Mapping[int, BlockSearch], cost: CostModel
    ) -> list[Found]:
        """Find the stages of each block; equal blocks share one result."""
        found = dict(zip(searches, solve_all(list(searches.values()), cost), strict=True))
        results = []
        for template in templates:
            original = found[template.block]
            stages = [template.counterpart(stage) for stage in original.stages]
            results.append(replace(original, stages=stages))
        gaps = [block.gap for block in results]
        self.gap = None if None in gaps else float(sum(gap or 0.0 for gap in gaps))
        return results

    def _search_across(
        self, blocks: Sequence[Found], whole: BlockSearch | None, cost: CostModel
    ) -> list[Candidate]:
        """Return the stages of the blocks, or cheaper ones across the cuts between these."""
        stages = _stages_of(blocks)
        before = float(cost(stages).sum())
        bound = None if self.gap is None else before - self.gap
        if whole is not None:
            (found,) = solve_all([whole], cost)
            self.whole, better, bound = True, found.stages, found.lower_bound
        else:
            better = search_cuts([b.stages for b in blocks], self._search_window(cost), cost)
        after = float(cost(better).sum())
        self.gap = None if bound is None else max(0.0, min(before, after) - bound)
        return better if after < before else stages

    def _explore_whole(self, cost: CostModel) -> BlockSearch | None:
        """Explore the schedules of the whole network; return None if they are too many."""
        block = self._block([op for block in self._blocks for op in block])
        try:
            return ExploredBlock.explore(block, cost, _WHOLE)
        except OptionError:
            return None

    def explore(
        self, operators: Sequence[int], cost: CostModel, prices: PriceList | None = None
    ) -> BlockSearch:
        """Return the search of some operators, by their index in the graph."""
        return search_block(self._block(operators), cost, _COMPLETE, prices=prices)

    def _search_window(self, cost: CostModel) -> SearchOf:
        """Return the function that searches the stages around a cut."""
        return lambda operators, known: search_block(
            self._block(operators), cost, _AROUND_CUT, known
        )

    def _block(self, operators: Sequence[int]) -> Block:
        return Block.of(self._bundles, self._replacements, self._limits, operators)

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


def _stages_of(blocks: Sequence[Found]) -> list[Candidate]:
    return [stage for block in blocks for stage in block.stages]
