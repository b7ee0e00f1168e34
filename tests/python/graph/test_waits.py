# SPDX-License-Identifier: Apache-2.0
"""Planned waits order all steps that depend on each other, and nothing more than needed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_ios.errors import GraphError
from tvm_ios.support import _ffi_api

NO_BARRIER = 1 << 20


class Access(NamedTuple):
    position: int
    worker: int
    memory: int
    begin: int
    size: int
    stride: int
    count: int
    writes: bool

    def bytes(self) -> set[tuple[int, int]]:
        return {
            (self.memory, self.begin + run * self.stride + byte)
            for run in range(self.count)
            for byte in range(self.size)
        }


def plan(
    workers: int, levels: Sequence[int], accesses: Sequence[Access], max_waits: int
) -> tuple[list[int], list[tuple[int, int, int, int]]]:
    rows = np.array(accesses, "int64").reshape(-1, 8)
    barriers, waits = _ffi_api.PlanWaits(workers, np.array(levels, "int64"), rows, max_waits)
    return np.from_dlpack(barriers).tolist(), list(map(tuple, np.from_dlpack(waits).tolist()))


def order(workers: int, levels: Sequence[int], barriers, waits) -> nx.DiGraph:
    """Which step is completed before which other one begins."""
    graph = nx.DiGraph()
    for position, worker in product(range(len(levels)), range(workers)):
        graph.add_node((position, worker))
        if position:
            graph.add_edge((position - 1, worker), (position, worker))
    for position, worker, other, completed in waits:
        assert worker != other
        assert completed >= 1
        assert levels[completed - 1] < levels[position], "no step waits for its own level"
        graph.add_edge((completed - 1, other), (position, worker))
    for barrier in barriers:
        graph.add_edges_from(
            ((barrier - 1, a), (barrier, b)) for a, b in product(range(workers), repeat=2)
        )
    return graph


@st.composite
def programs(draw: st.DrawFn) -> tuple[int, list[int], list[Access]]:
    workers = draw(st.integers(1, 4))
    levels = sorted(draw(st.lists(st.integers(0, 6), min_size=1, max_size=9)))
    access = st.builds(
        Access,
        st.integers(0, len(levels) - 1),
        st.integers(0, workers - 1),
        st.integers(0, 1),
        st.integers(0, 40),
        st.integers(1, 6),
        st.sampled_from([7, 10]),
        st.integers(1, 4),
        st.booleans(),
    )
    return workers, levels, draw(st.lists(access, max_size=24))


def depend(a: Sequence[Access], b: Sequence[Access]) -> bool:
    """Whether steps access the same bytes; of runs at other distances, the bytes between count."""
    return any(
        (x.writes or y.writes)
        and (x.bytes() & y.bytes() or (_uneven(x, y) and _hull(x) & _hull(y)))
        for x, y in product(a, b)
    )


def _uneven(x: Access, y: Access) -> bool:
    return x.count > 1 and y.count > 1 and x.stride != y.stride


def _hull(x: Access) -> set[tuple[int, int]]:
    own = x.bytes()
    return {(x.memory, byte) for byte in range(min(own)[1], max(own)[1] + 1)}


@settings(max_examples=300, deadline=None)
@given(programs(), st.sampled_from([0, 1, 2, NO_BARRIER]))
def test_dependent_steps_are_ordered(program, max_waits: int) -> None:
    workers, levels, accesses = program
    barriers, waits = plan(workers, levels, accesses, max_waits)
    graph = order(workers, levels, barriers, waits)
    assert nx.is_directed_acyclic_graph(graph)
    of = {step: [a for a in accesses if (a.position, a.worker) == step] for step in graph}
    for first, second in product(graph, repeat=2):
        if levels[first[0]] < levels[second[0]] and depend(of[first], of[second]):
            assert nx.has_path(graph, first, second)


@settings(max_examples=200, deadline=None)
@given(programs())
def test_no_wait_is_superfluous(program) -> None:
    """Each wait is for a step that is depended on, and is not ordered by anything else."""
    workers, levels, accesses = program
    barriers, waits = plan(workers, levels, accesses, NO_BARRIER)
    assert barriers == []
    of = lambda step: [a for a in accesses if (a.position, a.worker) == step]  # noqa: E731
    for wait in waits:
        position, worker, other, completed = wait
        assert depend(of((completed - 1, other)), of((position, worker)))
        rest = order(workers, levels, [], [w for w in waits if w != wait])
        assert not nx.has_path(rest, (completed - 1, other), (position, worker))


def everything(levels: int, workers: int) -> list[Access]:
    return [Access(p, w, 0, 0, 8, 0, 1, True) for p in range(levels) for w in range(workers)]


def test_a_level_with_many_waits_begins_with_a_barrier() -> None:
    accesses = everything(4, 6)
    assert plan(6, range(4), accesses, 4) == ([1, 2, 3], [])
    barriers, waits = plan(6, range(4), accesses, 5)
    assert (barriers, len(waits)) == ([], 3 * 6 * 5)


def test_a_barrier_ends_all_waits_for_what_is_before_it() -> None:
    """The first two levels depend on each other as a whole, the last one on the first."""
    accesses = everything(2, 3)
    accesses += [Access(2, w, 0, 0, 8, 0, 1, False) for w in range(3)]
    assert plan(3, range(3), accesses, 1) == ([1, 2], [])
    last = [Access(2, w, 1, 0, 8, 0, 1, False) for w in range(3)]
    first = [Access(0, w, 1, 0, 8, 0, 1, True) for w in range(3)]
    assert plan(3, range(3), [*everything(2, 3), *first, *last], 1) == ([1], [])


def test_very_many_workers_meet_at_barriers() -> None:
    assert plan(129, [0, 0, 3, 4], [], 4) == ([2, 3], [])
    assert plan(128, [0, 0, 3, 4], [], 4) == ([], [])


GOOD = Access(0, 0, 0, 0, 1, 0, 1, True)


@pytest.mark.parametrize(
    ("workers", "levels", "access", "max_waits"),
    [
        (0, [0], GOOD, 4),
        (1, [1, 0], GOOD, 4),
        (1, [0], GOOD._replace(position=1), 4),
        (1, [0], GOOD._replace(position=-1), 4),
        (1, [0], GOOD._replace(worker=1), 4),
        (1, [0], GOOD._replace(size=0), 4),
        (1, [0], GOOD._replace(count=0), 4),
        (1, [0], GOOD._replace(stride=-1), 4),
        (1, [0], GOOD._replace(begin=-1), 4),
        (1, [0], GOOD._replace(stride=1 << 40, count=1 << 40), 4),
        (1, [0], GOOD, -1),
    ],
)
def test_impossible_programs_are_refused(workers, levels, access, max_waits) -> None:
    with pytest.raises(GraphError):
        plan(workers, levels, [access], max_waits)
