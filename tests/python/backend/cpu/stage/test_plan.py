# SPDX-License-Identifier: Apache-2.0
"""The division of a stage's work: complete, in order, and balanced."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_ios.backend.cpu.kernels.kernel import Kernel, Phase
from tvm_ios.backend.cpu.stage.partition import partitionings, plan
from tvm_ios.backend.cpu.stage.plan import PlannedCall, StagePlan

CACHE = 1 << 20


def kernel(tiles: list[int], works: list[float]) -> Kernel:
    phases = [Phase(t, lambda *_: None, w) for t, w in zip(tiles, works, strict=True)]
    return Kernel("k", ("k", *tiles), (), (), tuple(phases))


@st.composite
def stages(draw: st.DrawFn) -> list[PlannedCall]:
    """Kernels of several phases; within a group each call may read earlier ones."""
    calls: list[PlannedCall] = []
    for i in range(draw(st.integers(1, 8))):
        tiles = draw(st.lists(st.integers(1, 200), min_size=1, max_size=3))
        works = draw(st.lists(st.floats(0.1, 4), min_size=len(tiles), max_size=len(tiles)))
        group = draw(st.integers(0, 3))
        before = [j for j in range(i) if calls[j].group == group]
        after = tuple(j for j in before if draw(st.booleans()))
        cost = draw(st.one_of(st.just(0.0), st.floats(1e-6, 1e-2)))
        calls.append(PlannedCall(kernel(tiles, works), cost, group, after))
    return calls


def tiles_of(calls: list[PlannedCall]) -> dict[tuple[int, int], int]:
    """The number of tiles of each phase of each call."""
    phases = [(i, p, x) for i, c in enumerate(calls) for p, x in enumerate(c.kernel.phases)]
    return {(i, p): phase.num_tiles for i, p, phase in phases}


def levels_of(result: StagePlan) -> dict[tuple[int, int], int]:
    return {(s.call, s.phase): n for n, level in enumerate(result.levels) for s in level}


workers = st.integers(1, 9)


@settings(derandomize=True, deadline=None)
@given(stages(), workers, st.sampled_from(["tiles", "groups"]))
def test_every_tile_is_computed_once(calls, count, partitioning) -> None:
    result = plan(calls, count, partitioning, CACHE)
    computed: dict[tuple[int, int], list[int]] = {}
    for level in result.levels:
        for share in level:
            assert len(share.cuts) == count + 1
            ranges = [range(begin, end) for begin, end in pairwise(share.cuts)]
            tiles = [tile for r in ranges for tile in r]
            computed.setdefault((share.call, share.phase), []).extend(tiles)
            assert list(share.cuts) == sorted(share.cuts)
    assert computed == {key: list(range(n)) for key, n in tiles_of(calls).items()}


@settings(derandomize=True, deadline=None)
@given(stages(), workers)
def test_what_a_kernel_reads_was_computed_in_an_earlier_level(calls, count) -> None:
    level = levels_of(plan(calls, count, "tiles", CACHE))
    for i, call in enumerate(calls):
        phases = range(len(call.kernel.phases))
        assert all(level[i, a] < level[i, b] for a, b in pairwise(phases))
        for before in call.after:
            assert level[before, len(calls[before].kernel.phases) - 1] < level[i, 0]


@settings(derandomize=True, deadline=None)
@given(stages(), workers)
def test_no_phase_waits_longer_than_it_must(calls, count) -> None:
    level = levels_of(plan(calls, count, "tiles", CACHE))
    for i, call in enumerate(calls):
        ends = [level[b, len(calls[b].kernel.phases) - 1] + 1 for b in call.after]
        assert level[i, 0] == max(ends, default=0)


@settings(derandomize=True, deadline=None)
@given(stages(), workers)
def test_tiles_are_balanced_to_within_one_tile(calls, count) -> None:
    """At each level a worker's predicted time differs from the mean by at most one tile."""
    for level in plan(calls, count, "tiles", CACHE).levels:
        tile = {s: calls[s.call].phase_cost(s.phase) / s.cuts[-1] for s in level}
        load = [sum(tile[s] * (s.cuts[w + 1] - s.cuts[w]) for s in level) for w in range(count)]
        mean, largest = sum(load) / count, max(tile.values())
        assert all(abs(worker - mean) <= largest * (1 + 1e-6) + 1e-15 for worker in load)


@settings(derandomize=True, deadline=None)
@given(stages(), workers)
def test_groups_stay_whole_and_in_order(calls, count) -> None:
    result = plan(calls, count, "groups", CACHE)
    assert len(result.levels) == 1
    owner: dict[int, int] = {}
    for share in result.levels[0]:
        tiles = tiles_of(calls)[share.call, share.phase]
        (worker,) = [w for w in range(count) if share.cuts[w + 1] - share.cuts[w] == tiles]
        assert owner.setdefault(calls[share.call].group, worker) == worker
    order = [(share.call, share.phase) for share in result.levels[0]]
    assert order == sorted(order)


def test_free_kernels_are_divided_by_tiles() -> None:
    calls = [PlannedCall(kernel([8], [1.0]), 0.0, 0, ())]
    assert plan(calls, 4, "tiles", CACHE).levels[0][0].cuts == (0, 2, 4, 6, 8)


@pytest.mark.parametrize("longest", [1e301, 1.7e308])
def test_absurd_costs_are_divided_nevertheless(longest: float) -> None:
    """Those of a file may be any."""
    costs = [longest, longest, 8e-8]
    calls = [PlannedCall(kernel([3], [1.0]), c, g, ()) for g, c in enumerate(costs)]
    (level,) = plan(calls, 2, "tiles", CACHE).levels
    assert all(s.cuts[0] == 0 and s.cuts[-1] == 3 and list(s.cuts) == sorted(s.cuts) for s in level)


def test_the_longest_groups_are_packed_first() -> None:
    costs = [3.0, 5.0, 2.0, 4.0]
    calls = [PlannedCall(kernel([2], [1.0]), c, g, ()) for g, c in enumerate(costs)]
    shares = plan(calls, 2, "groups", CACHE).levels[0]
    owners = [0 if share.cuts[1] else 1 for share in shares]
    assert owners == [1, 0, 0, 1]


def test_whole_groups_are_measured_only_where_they_keep_all_workers_busy() -> None:
    def calls(*costs: float) -> list[PlannedCall]:
        return [PlannedCall(kernel([8], [1.0]), c, g, ()) for g, c in enumerate(costs)]

    assert partitionings(calls(1.0, 1.0), 2) == ("tiles", "groups")
    assert partitionings(calls(1.0, 1.2), 2) == ("tiles", "groups")
    assert partitionings(calls(1.0, 3.0), 2) == ("tiles",)
    assert partitionings(calls(1.0, 1.0), 4) == ("tiles",)
    assert partitionings(calls(1.0), 2) == ("tiles",)
    assert partitionings(calls(1.0, 1.0), 1) == ("tiles",)
