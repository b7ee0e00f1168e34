# SPDX-License-Identifier: Apache-2.0
"""Launches wait for what they read and nothing else; memory is free when it is used again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import relax

from tvm_ios.backend.cuda.kernels.kernel import CudaKernel
from tvm_ios.backend.cuda.stage import ordering
from tvm_ios.backend.cuda.stage.ordering import Order, barriers_of, order_of, workspace_of
from tvm_ios.backend.cuda.stage.stage import CudaStage, Launch
from tvm_ios.lowering.implementation import Slot
from tvm_ios.lowering.inplace import holder
from tvm_ios.ops.tensor import TensorSpec


@dataclass(frozen=True)
class Network:
    """Launches that read the results of earlier ones, some of which lie in larger tensors."""

    launches: list[Launch]
    slots: dict[relax.Var, Slot] = field(default_factory=dict)

    def holder(self, value: relax.Var) -> object:
        return holder(value, self.slots)

    @property
    def reads(self) -> list[tuple[int, int]]:
        """Each launch with those that write what it reads, all parts of it or the whole."""
        writer = {launch.outputs[0]: n for n, launch in enumerate(self.launches)}
        parts = {v: [v] for v in writer}
        for value, slot in self.slots.items():
            parts.setdefault(slot.target, []).append(value)
        return [
            (writer[part], n)
            for n, launch in enumerate(self.launches)
            for value in launch.inputs
            for part in parts[value]
        ]


def image(name: str, size: int) -> relax.Var:
    return relax.Var(name, relax.TensorType((1, size, 1, 1), "uint8"))


def made(
    sizes: Sequence[int],
    edges: Sequence[Sequence[int]],
    joined: Collection[int] = (),
    readers: Collection[int] = (),
) -> Network:
    """Every third launch has scratch memory; the results of ``joined`` lie side by side.

    What these are together is read by the launches ``readers``.
    """
    values = [image(f"v{n}", size) for n, size in enumerate(sizes)]
    whole = image("whole", sum(sizes[n] for n in joined))
    slots, end = {}, 0
    for n in sorted(joined):
        slots[values[n]] = Slot(whole, end)
        end += sizes[n]

    def spec(value: relax.Var) -> TensorSpec:
        tensor = whole if value in slots else value
        return TensorSpec((int(tensor.ty.shape.values[1]),), "uint8")

    launches = []
    for n, (size, read) in enumerate(zip(sizes, edges, strict=True)):
        scratch = (TensorSpec((size + 1,), "uint8"),) if n % 3 == 0 else ()
        inputs = [values[i] for i in read] + [whole] * (n in readers)
        kernel = CudaKernel(
            f"k{n}", n, tuple(map(spec, inputs)), (spec(values[n]),), None, scratch=scratch
        )
        launches.append(Launch(kernel, 0, tuple(inputs), (values[n],)))
    return Network(launches, slots)


@st.composite
def networks(draw: st.DrawFn) -> Network:
    count = draw(st.integers(1, 24))
    sizes = draw(st.lists(st.integers(1, 5000), min_size=count, max_size=count))
    edges = [
        sorted(draw(st.sets(st.integers(max(0, n - 6), n - 1), max_size=3))) if n else []
        for n in range(count)
    ]
    joined = draw(st.sets(st.integers(0, count - 1), max_size=5))
    later = range(max(joined) + 1, count) if joined else ()
    readers = draw(st.sets(st.sampled_from(later), max_size=3)) if later else set()
    return made(sizes, edges, joined, readers)


def ancestors(pairs: Sequence[tuple[int, int]], count: int) -> list[set[int]]:
    graph = nx.DiGraph(pairs)
    graph.add_nodes_from(range(count))
    return [nx.ancestors(graph, n) for n in range(count)]


def graph_edges(order: Order) -> list[tuple[int, int]]:
    """The edges that a capture has: of streams, and of waits."""
    pairs = [(w, n) for n, waits in enumerate(order.waits) for w in waits]
    last: dict[int, int] = {}
    for n, stream in enumerate(order.streams):
        if stream in last:
            pairs.append((last[stream], n))
        last[stream] = n
    return pairs


def check_memory(network: Network, order: Order, outside: Collection[object]) -> None:
    """What lies at the same place is used by launches of which one all follow the others."""
    launches = network.launches
    places, num_bytes = workspace_of(launches, outside, order.before, network.slots)
    users: dict[object, set[int]] = {}
    for n, launch in enumerate(launches):
        for value in (*launch.inputs, *launch.outputs):
            users.setdefault(network.holder(value), set()).add(n)
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
            free = (all(a <= before[n] for n in b) for a, b in both(users, earlier, later))
            assert apart or any(free)


def both(
    users: Mapping[object, set[int]], one: object, other: object
) -> list[tuple[set[int], set[int]]]:
    return [(users[one], users[other]), (users[other], users[one])]


@given(networks())
def test_the_edges_are_those_of_the_data(network: Network) -> None:
    order, count = order_of(network.launches, network.slots), len(network.launches)
    found = ancestors(graph_edges(order), count)
    assert found == ancestors(network.reads, count)
    assert [{i for i in range(count) if b >> i & 1} for b in order.before] == found
    assert sorted(set(order.streams)) == list(range(1 + max(order.streams)))
    # No wait follows from others: the graph is its own transitive reduction, but for streams.
    for waits in order.waits:
        for wait in waits:
            assert all(wait not in found[other] for other in waits)


@given(networks())
def test_with_few_streams_nothing_is_missed(network: Network) -> None:
    launches = network.launches
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ordering, "_MOST_STREAMS", 2)
        order = order_of(launches, network.slots)
    found = ancestors(graph_edges(order), len(launches))
    needed = ancestors(network.reads, len(launches))
    assert set(order.streams) <= {0, 1}
    assert all(some <= all_ for some, all_ in zip(needed, found, strict=True))
    assert [{i for i in range(len(launches)) if b >> i & 1} for b in order.before] == found


@given(networks(), st.data())
def test_barriers_are_between_stages(network: Network, data: st.DataObject) -> None:
    """A launch follows all of the stages before, and in its stage those of its stream."""
    stages: list[CudaStage] = [CudaStage((), (), (), ())]
    for launch in network.launches:
        if data.draw(st.booleans()):
            stages += [CudaStage((), (), (), ())] * data.draw(st.integers(1, 2))
        streams = {other.stream for other in stages[-1].launches}
        stream = data.draw(st.integers(0, len(streams)))
        placed = replace(launch, stream=stream)
        stages[-1] = replace(stages[-1], launches=(*stages[-1].launches, placed))
    order = barriers_of(stages)
    needed: list[set[int]] = []
    for stage in stages:
        first = len(needed)
        for i in range(len(stage.launches)):
            own = {j for j in range(i) if stage.launches[j].stream == stage.launches[i].stream}
            needed.append(set(range(first)) | {first + j for j in own})
    assert ancestors(graph_edges(order), len(needed)) == needed
    assert [{i for i in range(len(needed)) if b >> i & 1} for b in order.before] == needed
    if all(producer in needed[n] for producer, n in network.reads):
        check_memory(network, order, set())


@given(networks(), st.data())
def test_memory_is_used_again_when_it_is_free(network: Network, data: st.DataObject) -> None:
    order = order_of(network.launches, network.slots)
    values = {network.holder(launch.outputs[0]) for launch in network.launches}
    check_memory(network, order, {value for value in values if data.draw(st.booleans())})


def test_a_chain_needs_two_tensors() -> None:
    launches = made([1000] * 6, [[], [0], [1], [2], [3], [4]]).launches[1:]
    order = order_of(launches, {})
    assert (order.streams, order.waits) == ((0,) * 5, ((),) * 5)
    _, num_bytes = workspace_of(launches, set(), order.before, {})
    assert num_bytes <= 2 * 1024 + 2 * 1280  # and scratch memory
