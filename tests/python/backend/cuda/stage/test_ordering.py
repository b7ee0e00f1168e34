# SPDX-License-Identifier: Apache-2.0
"""Launches wait for what they read and nothing else; memory is free when it is used again."""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import relax

from tvm_ios.backend.cuda.kernels.kernel import CudaKernel
from tvm_ios.backend.cuda.stage import ordering
from tvm_ios.backend.cuda.stage.ordering import Order, order_of, workspace_of
from tvm_ios.backend.cuda.stage.stage import Launch, identity
from tvm_ios.tir.tensor import TensorSpec


def made(sizes: Sequence[int], edges: Sequence[Sequence[int]]) -> list[Launch]:
    """Launches that read the results of earlier ones; every third has scratch memory."""
    values = [
        relax.Var(f"v{n}", relax.TensorType((size,), "uint8")) for n, size in enumerate(sizes)
    ]
    launches = []
    for n, (size, read) in enumerate(zip(sizes, edges, strict=True)):
        scratch = (TensorSpec((size + 1,), "uint8"),) if n % 3 == 0 else ()
        kernel = CudaKernel(
            f"k{n}", n, tuple(TensorSpec((sizes[i],), "uint8") for i in read),
            (TensorSpec((size,), "uint8"),), None, scratch=scratch,
        )  # fmt: skip
        launches.append(Launch(kernel, 0, tuple(values[i] for i in read), (values[n],)))
    return launches


@st.composite
def networks(draw: st.DrawFn) -> list[Launch]:
    count = draw(st.integers(1, 24))
    sizes = draw(st.lists(st.integers(1, 5000), min_size=count, max_size=count))
    edges = [
        sorted(draw(st.sets(st.integers(max(0, n - 6), n - 1), max_size=3))) if n else []
        for n in range(count)
    ]
    return made(sizes, edges)


def ancestors(pairs: Sequence[tuple[int, int]], count: int) -> list[set[int]]:
    graph = nx.DiGraph(pairs)
    graph.add_nodes_from(range(count))
    return [nx.ancestors(graph, n) for n in range(count)]


def reads(launches: Sequence[Launch]) -> list[tuple[int, int]]:
    writer = {identity(launch.outputs[0]): n for n, launch in enumerate(launches)}
    return [(writer[identity(v)], n) for n, launch in enumerate(launches) for v in launch.inputs]


def graph_edges(order: Order) -> list[tuple[int, int]]:
    """The edges that a capture has: of streams, and of waits."""
    pairs = [(w, n) for n, waits in enumerate(order.waits) for w in waits]
    last: dict[int, int] = {}
    for n, stream in enumerate(order.streams):
        if stream in last:
            pairs.append((last[stream], n))
        last[stream] = n
    return pairs


@given(networks())
def test_the_edges_are_those_of_the_data(launches: list[Launch]) -> None:
    order, count = order_of(launches), len(launches)
    found = ancestors(graph_edges(order), count)
    assert found == ancestors(reads(launches), count)
    assert [{i for i in range(count) if b >> i & 1} for b in order.before] == found
    assert sorted(set(order.streams)) == list(range(1 + max(order.streams)))
    # No wait follows from others: the graph is its own transitive reduction, but for streams.
    for n, waits in enumerate(order.waits):
        for wait in waits:
            assert all(wait not in found[other] for other in waits)
            assert order.streams[wait] != order.streams[n]


@given(networks())
def test_with_few_streams_nothing_is_missed(launches: list[Launch]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ordering, "_MOST_STREAMS", 2)
        order = order_of(launches)
    found = ancestors(graph_edges(order), len(launches))
    needed = ancestors(reads(launches), len(launches))
    assert set(order.streams) <= {0, 1}
    assert all(some <= all_ for some, all_ in zip(needed, found, strict=True))
    assert [{i for i in range(len(launches)) if b >> i & 1} for b in order.before] == found


@given(networks(), st.data())
def test_memory_is_used_again_when_it_is_free(launches: list[Launch], data: st.DataObject) -> None:
    order = order_of(launches)
    outside = {identity(launch.outputs[0]) for launch in launches if data.draw(st.booleans())}
    places, num_bytes = workspace_of(launches, outside, order)
    users: dict[object, set[int]] = {}
    for n, launch in enumerate(launches):
        for value in (*launch.inputs, *launch.outputs):
            users.setdefault(identity(value), set()).add(n)
        for i in range(len(launch.kernel.scratch)):
            users[n, i] = {n}
    before = ancestors(graph_edges(order), len(launches))
    assert places.keys() == users.keys() - outside
    tensors = sorted(places, key=lambda key: min(users[key]))
    for i, later in enumerate(tensors):
        offset, spec = places[later]
        assert offset % 256 == 0
        assert offset + spec.num_bytes <= num_bytes
        for earlier in tensors[:i]:
            begin, other = places[earlier]
            apart = begin + other.num_bytes <= offset or offset + spec.num_bytes <= begin
            assert apart or users[earlier] <= before[min(users[later])]


def test_a_chain_needs_two_tensors() -> None:
    launches = made([1000] * 6, [[], [0], [1], [2], [3], [4]])[1:]
    order = order_of(launches)
    assert (order.streams, order.waits) == ((0,) * 5, ((),) * 5)
    _, num_bytes = workspace_of(launches, set(), order)
    assert num_bytes <= 2 * 1024 + 2 * 1280  # and scratch memory
