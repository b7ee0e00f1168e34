# SPDX-License-Identifier: Apache-2.0
"""The best-first search against the complete one, within budgets, and with bad arguments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from support.random_blocks import GradualCost, block_of, price, prices, random_wiring
from tvm_ios.errors import CostError, GraphError, OptionError
from tvm_ios.graph.dag import Candidate, Dag
from tvm_ios.search import best_first, find_schedule
from tvm_ios.search import best_first_block as search_of_blocks
from tvm_ios.search.block import BestFirstBlock, ExploredBlock, search_block, solve_all

UNLIMITED = {"max_transitions": 1 << 40, "max_candidates": 1 << 40, "seconds": 1e9}


def check_schedule(dag: Dag, stages: Sequence[Candidate]) -> None:
    """Every operator once, none before its predecessors."""
    at = {op: i for i, stage in enumerate(stages) for op in stage.ops}
    assert sorted(op for stage in stages for op in stage.ops) == list(range(dag.num_ops))
    assert all(at[u] <= at[v] for u, v in dag.edges)


@pytest.mark.parametrize("seed", range(5))
def test_it_finds_what_the_complete_search_finds(seed: int) -> None:
    dag = random_wiring(14, seed)
    plain = find_schedule(dag, prices)
    found = best_first(dag, prices, floors=np.full(14, 0.3), **UNLIMITED)
    assert found.latency == pytest.approx(plain.latency)
    assert found.proved
    check_schedule(dag, found.stages)


def test_a_randomly_wired_block_of_fifty_ends_with_a_gap() -> None:
    dag = random_wiring(50)
    budget = {"max_transitions": 50_000, "max_candidates": 2_000, "seconds": 1e9}
    found = best_first(dag, prices, floors=np.full(50, 0.33), **budget)
    check_schedule(dag, found.stages)
    assert not found.proved
    assert 50 * 0.33 <= found.lower_bound < found.latency < 2 * found.lower_bound
    assert found.evaluations <= 2_000
    again = best_first(dag, prices, floors=np.full(50, 0.33), **budget)
    assert again.latency == found.latency


def test_it_merges_what_may_merge() -> None:
    def cheap(candidates: Sequence[Candidate]) -> np.ndarray:
        return np.array([1.0 if c.strategy == "merge" else 5.0 for c in candidates])

    limits = {"max_group_size": 1, "max_num_groups": 1}
    found = best_first(Dag(3), cheap, merge_class=[4, -1, 4], **limits, **UNLIMITED)
    assert sorted(stage.ops for stage in found.stages) == [(0, 2), (1,)]
    assert found.latency == 6.0
    pairs = best_first(Dag(3), cheap, replacements=[(0, 1)], **limits, **UNLIMITED)
    assert sorted(stage.ops for stage in pairs.stages) == [(0, 1), (2,)]


@pytest.mark.parametrize(("limits", "stages"), [({}, 3), ({"max_group_size": None}, 1)])
def test_groups_are_as_large_as_they_may_be(limits: dict[str, None], stages: int) -> None:
    """Three operators by default."""
    chain = Dag(8, [(i, i + 1) for i in range(7)])
    found = best_first(chain, lambda c: np.ones(len(c)), **limits, **UNLIMITED)
    assert len(found.stages) == stages


@pytest.mark.parametrize(("limits", "stages"), [({}, 2), ({"max_num_groups": None}, 1)])
def test_stages_are_as_wide_as_they_may_be(limits: dict[str, None], stages: int) -> None:
    """Eight groups by default."""
    found = best_first(Dag(9), lambda c: np.ones(len(c)), **limits, **UNLIMITED)
    assert len(found.stages) == stages


def test_it_begins_with_the_known_schedule() -> None:
    dag = random_wiring(12)
    known = find_schedule(dag, prices).stages
    nothing = {"max_transitions": 0, "max_candidates": 0, "seconds": 1e9}
    found = best_first(dag, prices, known=known, **nothing)
    assert found.latency == pytest.approx(prices(known).sum())
    assert best_first(dag, prices, **nothing).latency > found.latency


@pytest.mark.parametrize(
    ("cost", "error"),
    [
        (lambda c: np.zeros(len(c) + 1), CostError),
        (lambda c: np.full(len(c), -1.0), CostError),
        (lambda c: np.full(len(c), np.nan), CostError),
        (lambda c: 1 // 0, ZeroDivisionError),
    ],
)
def test_bad_prices(cost, error: type[Exception]) -> None:
    with pytest.raises(error):
        best_first(Dag(2), cost, **UNLIMITED)


@pytest.mark.parametrize("floors", [[1.0], [1.0, -1.0], [1.0, np.inf], [np.nan, 1.0]])
def test_bad_floors(floors: list[float]) -> None:
    with pytest.raises(OptionError, match="floor"):
        best_first(Dag(2), prices, floors=np.array(floors), **UNLIMITED)


def test_what_is_known_must_be_a_schedule() -> None:
    dag = Dag(2, [(0, 1)])
    for ops in ([(1,), (0,)], [(0,)], [(0,), (0,), (1,)]):
        known = [Candidate(own, "concurrent") for own in ops]
        with pytest.raises(GraphError, match="known schedule"):
            best_first(dag, prices, known=known, **UNLIMITED)


@pytest.mark.parametrize("seed", range(3))
def test_prices_that_become_known_end_near_the_optimum(seed: int) -> None:
    """However the block is searched, in the indices of the network."""
    dag = random_wiring(24, seed)
    block = block_of(dag, range(6, 18))
    (plain,) = solve_all([ExploredBlock.explore(block, GradualCost(), None)], GradualCost())
    cost = GradualCost()
    (found,) = solve_all([BestFirstBlock(block, cost)], cost)
    assert set(found.stages) <= cost.resolved
    assert found.seconds == pytest.approx(prices(found.stages).sum())
    optimum = find_schedule(
        block.dag,
        lambda batch: np.array([price(Candidate(tuple(i + 6 for i in c.ops), c.strategy))
                                for c in batch]),
    )  # fmt: skip
    # A search ends where its bounds promise less than half a percent.
    assert optimum.latency <= found.seconds * (1 + 1e-12)
    assert found.gap is not None
    assert found.seconds - optimum.latency <= found.gap + 1e-12 <= 0.0051 * found.seconds
    assert sorted(op for stage in plain.stages for op in stage.ops) == list(range(6, 18))


def test_batches_of_prices_become_one() -> None:
    cost = GradualCost()
    search = BestFirstBlock(block_of(random_wiring(40), range(40)), cost)
    search.solve()
    asked = sum(cost.batches)
    assert len(cost.batches) > 5
    cost.batches.clear()
    search.lookup()
    assert cost.batches[0] == asked
    cost.batches.clear()
    cost.resolve(search.solve().stages)
    search.solve()
    search.solve()
    assert sum(cost.batches) < asked / 2  # only what was new


def test_a_block_begins_with_the_stages_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    block = block_of(random_wiring(24), range(6, 18))
    best = ExploredBlock.explore(block, GradualCost(), None).solve()
    monkeypatch.setattr(search_of_blocks, "_TRANSITIONS", 0)
    assert BestFirstBlock(block, GradualCost(), best.stages).solve().seconds == pytest.approx(
        best.seconds
    )
    assert BestFirstBlock(block, GradualCost()).solve().seconds > best.seconds


def test_only_small_blocks_are_explored_completely() -> None:
    block = block_of(random_wiring(16), range(16))
    assert isinstance(search_block(block, GradualCost(), 100_000), ExploredBlock)
    assert isinstance(search_block(block, GradualCost(), 10), BestFirstBlock)


def test_without_floors_the_gap_is_unknown() -> None:
    wide = BestFirstBlock(block_of(random_wiring(50), range(50)), GradualCost(0.0))
    assert wide.lower_bound() is None
    proved = BestFirstBlock(block_of(random_wiring(8), range(8)), GradualCost(0.0))
    assert proved.lower_bound() == proved.solve().seconds
