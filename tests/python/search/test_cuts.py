# SPDX-License-Identifier: Apache-2.0
"""The search across the cuts between blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from support.random_blocks import GradualCost, block_of, prices, random_wiring
from tvm_ios.graph.dag import Candidate, Dag
from tvm_ios.search import cuts
from tvm_ios.search.block import BlockSearch, Found, search_block, solve_all


def blocks_of(dag: Dag, size: int) -> list[list[Candidate]]:
    """The best stages of each block of so many operators in a row."""
    cost = GradualCost()
    parts = [range(i, min(i + size, dag.num_ops)) for i in range(0, dag.num_ops, size)]
    searches = [search_block(block_of(dag, part), cost, 20_000) for part in parts]
    return [found.stages for found in solve_all(searches, cost)]


@pytest.mark.parametrize("size", [1, 4, 7, 12])
def test_stages_around_cuts_are_never_worse(size: int) -> None:
    saved = 0.0
    for seed in range(3):
        dag = random_wiring(30, seed)
        blocks, cost = blocks_of(dag, size), GradualCost()
        before = [stage for block in blocks for stage in block]

        def search(operators: Sequence[int], known: Sequence[Candidate]) -> BlockSearch:
            assert sorted(operators) == sorted(op for stage in known for op in stage.ops)
            assert len(operators) <= cuts.WINDOW
            return search_block(block_of(dag, operators), cost, 20_000, known)  # noqa: B023

        stages = cuts.search_cuts(blocks, search, cost)
        at = {op: i for i, stage in enumerate(stages) for op in stage.ops}
        assert sorted(op for stage in stages for op in stage.ops) == list(range(30))
        assert all(at[u] <= at[v] for u, v in dag.edges)
        saved += prices(before).sum() - prices(stages).sum()
        assert prices(stages).sum() <= prices(before).sum()
    assert saved > 0


def test_every_cut_is_searched() -> None:
    """Two blocks at a time: first every other cut, then those between."""
    blocks = [[Candidate((2 * i + j,), "concurrent") for j in range(2)] for i in range(5)]
    rounds: list[list[int]] = []

    class Nothing:
        def solve(self) -> Found:
            return Found([Candidate((0,), "concurrent")], 9.0, None)

        solve_known = solve

        def lower_bound(self) -> None: ...

        def lookup(self) -> None: ...

    def search(operators: Sequence[int], _known: object) -> Nothing:
        rounds.append(list(operators))
        return Nothing()

    class Dear(GradualCost):
        """Whatever a search finds costs more."""

        def __call__(self, candidates: Sequence[Candidate]) -> np.ndarray:
            return np.array([9.0 if c.ops == (0,) else 1.0 for c in candidates])

    stages = cuts.search_cuts([[], *blocks[1:], []], search, Dear())
    assert stages == [stage for block in blocks[1:] for stage in block]
    assert sorted(rounds) == [[2, 3], [2, 3, 4, 5], [4, 5, 6, 7], [6, 7, 8, 9], [8, 9]]
