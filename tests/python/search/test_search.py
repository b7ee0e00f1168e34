# SPDX-License-Identifier: Apache-2.0
"""The search against brute force, against the definitions, and against bad arguments."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_ios.errors import CostError, GraphError, OptionError, ScheduleError, TvmIosError
from tvm_ios.graph.dag import Candidate, Dag, components
from tvm_ios.search import endings, find_schedule, greedy, partition, partition_cost, sequential

Stages = tuple[Candidate, ...]


@st.composite
def dags(draw: st.DrawFn, max_ops: int = 6) -> Dag:
    """Graphs whose operators are not numbered in topological order."""
    num_ops = draw(st.integers(1, max_ops))
    rank = draw(st.permutations(range(num_ops)))
    pairs = list(itertools.combinations(range(num_ops), 2))
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return Dag(num_ops, [(rank[i], rank[j]) for i, j in chosen])


def to_networkx(dag: Dag) -> nx.DiGraph:
    """Return the same graph."""
    graph = nx.DiGraph(dag.edges)
    graph.add_nodes_from(range(dag.num_ops))
    return graph


def endings_by_definition(
    graph: nx.DiGraph, remaining: frozenset[int], max_group_size: int, max_num_groups: int
) -> Iterator[frozenset[int]]:
    """Yield the non-empty subsets that no edge leaves for the rest, and whose groups fit."""
    for size in range(1, len(remaining) + 1):
        for ops in map(frozenset, itertools.combinations(sorted(remaining), size)):
            if any(reader in remaining - ops for op in ops for reader in graph.successors(op)):
                continue
            groups = list(nx.weakly_connected_components(graph.subgraph(ops)))
            if len(groups) <= max_num_groups and max(map(len, groups)) <= max_group_size:
                yield ops


def all_schedules(
    dag: Dag, merge_class: Sequence[int], max_group_size: int, max_num_groups: int
) -> list[Stages]:
    """Return every schedule there is."""
    graph = to_networkx(dag)

    def stages(remaining: frozenset[int]) -> Iterator[Candidate]:
        for ops in endings_by_definition(graph, remaining, max_group_size, max_num_groups):
            yield Candidate(tuple(sorted(ops)), "concurrent")
        for ops in endings_by_definition(graph, remaining, 1, dag.num_ops):
            classes = {merge_class[op] for op in ops}
            if len(classes) == 1 and min(classes) >= 0:
                yield Candidate(tuple(sorted(ops)), "merge")

    @cache
    def schedules(remaining: frozenset[int]) -> list[Stages]:
        if not remaining:
            return [()]
        return [
            (*first, last)
            for last in stages(remaining)
            for first in schedules(remaining - frozenset(last.ops))
        ]

    return schedules(frozenset(range(dag.num_ops)))


def constant(value: float) -> Callable[[Sequence[Candidate]], np.ndarray]:
    """Return a cost function by which all stages are equal."""
    return lambda candidates: np.full(len(candidates), value)


def chain(num_ops: int) -> Dag:
    """Return 0 -> 1 -> ..."""
    return Dag(num_ops, zip(range(num_ops), range(1, num_ops), strict=False))


DIAMOND = Dag(4, [(0, 1), (0, 2), (1, 3), (2, 3)])


@settings(max_examples=150, deadline=None)
@given(
    dag=dags(max_ops=5),
    seed=st.integers(0, 2**32 - 1),
    limits=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    data=st.data(),
)
def test_schedule_is_the_best_of_all(
    dag: Dag, seed: int, limits: tuple[int, int], data: st.DataObject
) -> None:
    """Random latencies, some infinite; of equal schedules one with the fewest stages."""
    merge_class = data.draw(
        st.lists(st.integers(-1, 1), min_size=dag.num_ops, max_size=dag.num_ops)
    )
    latency: dict[Candidate, float] = {}

    def cost(candidates: Sequence[Candidate]) -> np.ndarray:
        assert not latency, "the candidates are asked for in one batch"
        assert len(set(candidates)) == len(candidates)
        numbers = random.Random(seed)
        for candidate in sorted(candidates):
            can_run = len(candidate.ops) == 1 or numbers.random() < 0.8
            latency[candidate] = numbers.randint(0, 9) if can_run else math.inf
        return np.array([latency[candidate] for candidate in candidates])

    result = find_schedule(
        dag, cost, merge_class=merge_class, max_group_size=limits[0], max_num_groups=limits[1]
    )
    schedules = all_schedules(dag, merge_class, *limits)
    best = min((sum(latency[s] for s in stages), len(stages)) for stages in schedules)
    assert tuple(result.stages) in set(schedules)
    assert (result.latency, len(result.stages)) == best
    assert sum(latency[stage] for stage in result.stages) == result.latency
    assert {stage for stages in schedules for stage in stages} == set(latency)
    assert result.evaluations == len(latency)


@settings(max_examples=200, deadline=None)
@given(dag=dags(max_ops=7), limits=st.tuples(st.integers(1, 7), st.integers(1, 7)), data=st.data())
def test_endings_are_those_of_the_definition(
    dag: Dag, limits: tuple[int, int], data: st.DataObject
) -> None:
    """For any set that an ending leaves behind."""
    graph = to_networkx(dag)
    kept = data.draw(st.sets(st.integers(0, dag.num_ops - 1)))
    remaining = frozenset(kept).union(*(nx.ancestors(graph, op) for op in kept))
    found = endings(dag, remaining, max_group_size=limits[0], max_num_groups=limits[1])
    assert len(set(found)) == len(found)
    expected = endings_by_definition(graph, remaining, *limits)
    assert set(map(frozenset, found)) == set(expected)


@settings(max_examples=100, deadline=None)
@given(dag=dags(max_ops=9), data=st.data())
def test_components_are_weakly_connected(dag: Dag, data: st.DataObject) -> None:
    """Each one in topological order."""
    graph = to_networkx(dag)
    ops = data.draw(st.sets(st.integers(0, dag.num_ops - 1)))
    groups = components(dag, ops)
    expected = nx.weakly_connected_components(graph.subgraph(ops))
    assert sorted(map(sorted, groups)) == sorted(map(sorted, expected))
    for group in groups:
        place = {op: index for index, op in enumerate(group)}
        assert all(place[u] < place[v] for u, v in dag.edges if u in place and v in place)


@settings(max_examples=100, deadline=None)
@given(dag=dags(max_ops=9), width=st.integers(1, 4))
def test_baselines_respect_the_graph(dag: Dag, width: int) -> None:
    """Each operator runs once, after all that it reads, and greedy runs what is ready."""
    for stages in (sequential(dag), greedy(dag, width)):
        stage_of = {op: i for i, stage in enumerate(stages) for op in stage.ops}
        assert sorted(stage_of) == list(range(dag.num_ops))
        assert all(stage_of[u] < stage_of[v] for u, v in dag.edges)
        assert sum(len(stage.ops) for stage in stages) == dag.num_ops
        assert {stage.strategy for stage in stages} == {"concurrent"}
    assert max(len(stage.ops) for stage in greedy(dag, width)) <= width
    assert len(sequential(dag)) == dag.num_ops


@settings(max_examples=100, deadline=None)
@given(dag=dags(max_ops=9), size=st.integers(1, 5), data=st.data())
def test_partition_is_a_topological_order(dag: Dag, size: int, data: st.DataObject) -> None:
    """Cut into pieces that fit, and cheaper than the graph's own order in pieces of that size."""
    limits = {"min_size": dag.num_ops, "max_size": dag.num_ops}
    classes = data.draw(st.lists(st.integers(-1, 2), **limits))
    blocks = partition(dag, size, classes)
    order = [op for block in blocks for op in block]
    assert sorted(order) == list(range(dag.num_ops))
    place = {op: i for i, op in enumerate(order)}
    assert all(place[u] < place[v] for u, v in dag.edges)
    assert 1 <= min(map(len, blocks)) <= max(map(len, blocks)) <= size
    own = [op for stage in sequential(dag) for op in stage.ops]
    pieces = [own[i : i + size] for i in range(0, len(own), size)]
    assert partition_cost(dag, blocks, classes) <= partition_cost(dag, pieces, classes)


def test_partition_cuts_where_one_tensor_is_live() -> None:
    """Two diamonds in a row are two blocks."""
    dag = Dag(7, [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (3, 5), (4, 6), (5, 6)])
    assert partition(dag, 4) == [[0, 1, 2, 3], [4, 5, 6]]
    assert partition_cost(dag, partition(dag, 4)) == 0


def test_partition_cost_counts_branches_and_divided_classes() -> None:
    """0 -> {1 -> 2, 3 -> 4} -> 5; two operators are live in the middle, and 1 and 3 may merge."""
    dag = Dag(6, [(0, 1), (1, 2), (0, 3), (3, 4), (2, 5), (4, 5)])
    classes = [-1, 0, -1, 0, -1, -1]
    assert partition_cost(dag, [[0, 1, 2], [3, 4, 5]], classes) == 2
    assert partition_cost(dag, [[0, 1, 2], [3, 4, 5]]) == 1
    assert partition_cost(dag, [[0, 1, 3], [2, 4, 5]], classes) == 1
    assert partition(dag, 3, classes) == [[0, 1, 3], [2, 4, 5]]
    assert partition_cost(dag, [list(range(6))], classes) == 0


@pytest.mark.parametrize("blocks", [[], [[0, 1, 2]], [[0, 1, 2, 3], [3]], [[3], [0, 1, 2]], [[9]]])
def test_partition_cost_refuses_what_is_no_partition(blocks: list) -> None:
    """Operators that are missing, repeated, out of order, unknown."""
    with pytest.raises(GraphError):
        partition_cost(DIAMOND, blocks)


@pytest.mark.parametrize("merge_class", [None, [0, 0, 0, 0, 0, 0]])
def test_ties_are_broken_always_alike(merge_class: list[int] | None) -> None:
    """All stages cost the same, so that one stage is best; and nothing, so that all are equal."""
    dag = Dag(6, [(0, 2), (1, 2), (3, 4)])
    for value in (0.0, 1.0):
        results = [find_schedule(dag, constant(value), merge_class=merge_class) for _ in range(5)]
        assert all(result == results[0] for result in results)
        assert results[0].stages == [Candidate((0, 1, 2, 3, 4, 5), "concurrent")]


@pytest.mark.parametrize("num_ops", [1, 3])
def test_concurrent_stages_win_ties_with_merged_ones(num_ops: int) -> None:
    result = find_schedule(Dag(num_ops), constant(1.0), merge_class=[0] * num_ops)
    assert result.stages == [Candidate(tuple(range(num_ops)), "concurrent")]


def test_sinks_of_one_class_may_be_merged() -> None:
    """Merging pays here; 1 and 2 are sinks once 3 is decided."""

    def cost(candidates: Sequence[Candidate]) -> np.ndarray:
        return np.array([1.0 if c.strategy == "merge" else 5.0 for c in candidates])

    result = find_schedule(DIAMOND, cost, merge_class=[-1, 4, 4, -1], max_group_size=1)
    assert result.stages == [
        Candidate((0,), "concurrent"),
        Candidate((1, 2), "merge"),
        Candidate((3,), "concurrent"),
    ]
    assert result.latency == 11.0


def test_operators_that_read_each_other_may_be_replaced() -> None:
    """0 -> 1 -> 2 and 0 -> 3: 1 and 2 together, and 3 alone; never 0 and 2, with 1 between them."""

    def cost(candidates: Sequence[Candidate]) -> np.ndarray:
        return np.array([0.25 if c.strategy == "merge" else 1.0 for c in candidates])

    dag = Dag(4, [(0, 1), (1, 2), (0, 3)])
    result = find_schedule(
        dag, cost, replacements=[(2, 1), (3,), (0, 2)], max_group_size=1, max_num_groups=1
    )
    merged = sorted(stage.ops for stage in result.stages if stage.strategy == "merge")
    assert merged == [(1, 2), (3,)]
    assert result.latency == 1.5


@pytest.mark.parametrize("ops", [(), (0, 4), (-1,)])
def test_bad_replacements(ops: tuple[int, ...]) -> None:
    with pytest.raises(OptionError, match="replacement"):
        find_schedule(Dag(4), constant(1.0), replacements=[ops])


@pytest.mark.parametrize("num_ops", [1, 64, 65, 128, 129, 256, 257, 300])
def test_graphs_of_any_width(num_ops: int) -> None:
    """Two chains side by side, of which an optimum pairs the operators up."""
    half = num_ops // 2
    edges = [(i, i + 2) for i in range(num_ops - 2)]
    result = find_schedule(Dag(num_ops, edges), constant(1.0), max_group_size=1)
    assert result.latency == half + num_ops % 2
    assert sorted(op for stage in result.stages for op in stage.ops) == list(range(num_ops))


def test_unpruned_search_takes_everything_in_one_stage() -> None:
    """None stands for no limit."""
    result = find_schedule(chain(70), constant(1.0), max_group_size=None, max_num_groups=None)
    assert result.stages == [Candidate(tuple(range(70)), "concurrent")]


@pytest.mark.parametrize(
    ("num_ops", "edges"),
    [
        (0, []),
        (-1, []),
        (2, [(0, 1), (1, 0)]),
        (3, [(0, 1), (1, 1)]),
        (2, [(0, 2)]),
        (2, [(-1, 0)]),
        (2, [(0, 1, 1)]),
        (2, [(0.5, 1.5)]),
    ],
)
def test_bad_graphs(num_ops: int, edges: list) -> None:
    """Empty, cyclic, out of range, not pairs, not integers."""
    with pytest.raises(GraphError):
        Dag(num_ops, edges)


def test_errors_are_value_errors_of_this_package() -> None:
    """Whoever does not know the package catches ValueError."""
    assert issubclass(GraphError, ValueError)
    assert issubclass(GraphError, TvmIosError)


@pytest.mark.parametrize("limit", [0, -1])
def test_bad_options(limit: int) -> None:
    """Limits below one."""
    with pytest.raises(OptionError, match="max_group_size"):
        find_schedule(DIAMOND, constant(1.0), max_group_size=limit)
    with pytest.raises(OptionError, match="max_num_groups"):
        find_schedule(DIAMOND, constant(1.0), max_num_groups=limit)
    with pytest.raises(OptionError, match="max_num_groups"):
        greedy(DIAMOND, limit)
    with pytest.raises(OptionError, match="max_block_size"):
        partition(DIAMOND, limit)


@pytest.mark.parametrize("merge_class", [[], [0], [0] * 5, [0.0] * 4, [[0] * 4]])
def test_bad_merge_class(merge_class: list) -> None:
    """Not one integer for each operator."""
    with pytest.raises(OptionError, match="merge_class"):
        find_schedule(DIAMOND, constant(1.0), merge_class=merge_class)
    with pytest.raises(OptionError, match="merge_class"):
        partition(DIAMOND, 2, merge_class)


@pytest.mark.parametrize("ops", [[4], [-1], [1], [1 << 40]])
def test_bad_remaining_operators(ops: list[int]) -> None:
    """Out of range, or without their predecessors."""
    with pytest.raises(GraphError):
        endings(DIAMOND, ops)


@pytest.mark.parametrize("ops", [[4], [-1], [1, 1]])
def test_bad_components(ops: list[int]) -> None:
    """Out of range, or twice."""
    with pytest.raises(GraphError):
        components(DIAMOND, ops)


@pytest.mark.parametrize("latency", [math.nan, -1.0, -math.inf])
def test_bad_latencies(latency: float) -> None:
    """The message names the stage."""
    with pytest.raises(CostError, match="stage concurrent"):
        find_schedule(DIAMOND, constant(latency))


@pytest.mark.parametrize("shape", [0, 1, 1000, (1, 9)])
def test_wrong_number_of_latencies(shape: int | tuple[int, int]) -> None:
    """One for each candidate is what is wanted."""
    with pytest.raises(CostError, match="latencies"):
        find_schedule(DIAMOND, lambda candidates: np.ones(shape))


def test_nothing_can_run() -> None:
    """No schedule is feasible."""
    with pytest.raises(ScheduleError):
        find_schedule(DIAMOND, constant(math.inf))


class OwnError(Exception):
    """A type that the C++ library has never heard of."""


@pytest.mark.parametrize("kind", [OwnError, KeyboardInterrupt, OSError, ValueError])
def test_exception_of_the_cost_function_comes_out_itself(kind: type[BaseException]) -> None:
    """The very object."""
    error = kind("no device")

    def cost(candidates: Sequence[Candidate]) -> np.ndarray:
        raise error

    with pytest.raises(kind) as caught:
        find_schedule(DIAMOND, cost)
    assert caught.value is error


def test_graph_can_be_copied_and_pickled() -> None:
    """As can what a search returns."""
    for dag in (copy.deepcopy(DIAMOND), pickle.loads(pickle.dumps(DIAMOND))):
        assert (dag.num_ops, dag.edges) == (DIAMOND.num_ops, DIAMOND.edges)
    result = find_schedule(DIAMOND, constant(1.0))
    assert str(pickle.loads(pickle.dumps(result))) == str(result)


def test_repeated_edges_are_one() -> None:
    """Two tensors between the same operators, say."""
    assert Dag(2, [(0, 1), (0, 1)]).edges == [(0, 1)]
    assert Dag(2, np.array([[0, 1]], dtype=np.int32)).edges == [(0, 1)]
