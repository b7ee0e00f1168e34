# SPDX-License-Identifier: Apache-2.0
"""Labelled graphs compared, with networkx as the judge."""

from __future__ import annotations

from itertools import product

import networkx as nx
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from networkx.algorithms.isomorphism import DiGraphMatcher

from tvm_ios.graph import isomorphism as module
from tvm_ios.graph.isomorphism import LabelledGraph, isomorphism


@st.composite
def graphs(draw: st.DrawFn, max_nodes: int = 7) -> LabelledGraph:
    """Few labels and many edges, so that equal ones are not rare."""
    n = draw(st.integers(0, max_nodes))
    labels = draw(st.lists(st.sampled_from("ab"), min_size=n, max_size=n))
    pairs = [(u, v) for u, v in product(range(n), repeat=2) if u != v]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    edges = [(u, v, draw(st.sampled_from((0, 1)))) for u, v in chosen]
    return LabelledGraph(tuple(labels), tuple(edges))


def permuted(graph: LabelledGraph, order: list[int]) -> LabelledGraph:
    """The graph whose node ``order[i]`` is node ``i`` of ``graph``."""
    labels = [""] * len(order)
    for node, place in enumerate(order):
        labels[place] = graph.labels[node]
    edges = [(order[u], order[v], label) for u, v, label in graph.edges]
    return LabelledGraph(tuple(labels), tuple(reversed(edges)))


def judge(a: LabelledGraph, b: LabelledGraph) -> bool:
    """Whether networkx finds the graphs isomorphic."""
    graphs = []
    for graph in (a, b):
        result = nx.DiGraph()
        result.add_nodes_from((i, {"label": label}) for i, label in enumerate(graph.labels))
        result.add_edges_from((u, v, {"label": label}) for u, v, label in graph.edges)
        graphs.append(result)
    same = lambda x, y: x["label"] == y["label"]  # noqa: E731
    return DiGraphMatcher(*graphs, node_match=same, edge_match=same).is_isomorphic()


def check(a: LabelledGraph, b: LabelledGraph, image: tuple[int, ...]) -> None:
    """An isomorphism maps nodes one to one, labels and edges on equal ones."""
    assert sorted(image) == list(range(len(a.labels)))
    assert all(a.labels[i] == b.labels[image[i]] for i in range(len(image)))
    assert sorted((image[u], image[v], x) for u, v, x in a.edges) == sorted(b.edges)


@settings(max_examples=100, deadline=None)
@given(data=st.data(), graph=graphs())
def test_permuted_graphs_are_equal(data: st.DataObject, graph: LabelledGraph) -> None:
    """Whatever the order of nodes and edges."""
    other = permuted(graph, data.draw(st.permutations(range(len(graph.labels)))))
    assert graph.digest == other.digest
    image = isomorphism(graph, other)
    assert image is not None
    check(graph, other, image)


@settings(max_examples=100, deadline=None)
@given(data=st.data(), a=graphs(max_nodes=5))
def test_agrees_with_networkx(data: st.DataObject, a: LabelledGraph) -> None:
    """Also where an edge stands elsewhere, which may leave the graphs equal or not."""
    assume(len(a.labels) > 1 and a.edges)
    b = permuted(a, data.draw(st.permutations(range(len(a.labels)))))
    free = set(product(range(len(a.labels)), repeat=2)) - {(u, v) for u, v, _ in b.edges[1:]}
    u, v = data.draw(st.sampled_from(sorted((u, v) for u, v in free if u != v)))
    b = LabelledGraph(b.labels, (*b.edges[1:], (u, v, b.edges[0][2])))
    image = isomorphism(a, b)
    assert (image is not None) == judge(a, b)
    if image is not None:
        check(a, b, image)


def ring(*lengths: int) -> LabelledGraph:
    """Cycles, all of whose nodes look alike to colour refinement."""
    edges, start = [], 0
    for length in lengths:
        edges += [(start + i, start + (i + 1) % length, "next") for i in range(length)]
        start += length
    return LabelledGraph(("node",) * start, tuple(edges))


def test_equal_colours_are_not_enough() -> None:
    """Two triangles are no hexagon, although each node has one edge in and one out."""
    assert ring(3, 3).digest == ring(6).digest
    assert isomorphism(ring(3, 3), ring(6)) is None
    assert isomorphism(ring(3, 4), ring(4, 3)) is not None


def test_gives_up_after_too_many_steps(monkeypatch) -> None:
    """No answer is taken for no."""
    monkeypatch.setattr(module, "_MAX_STEPS", 3)
    assert isomorphism(ring(3, 4), ring(4, 3)) is None


def test_alike_nodes_keep_their_order() -> None:
    """Four equal branches between a fork and a join."""
    edges = [(0, i, "out") for i in range(1, 5)] + [(i, 5, "in") for i in range(1, 5)]
    graph = LabelledGraph(("fork", *"bbbb", "join"), tuple(edges))
    assert isomorphism(graph, graph) == tuple(range(6))


def test_repeated_edges_count() -> None:
    """As when an operator reads one value twice."""
    once = LabelledGraph(("v", "op", "op"), ((0, 1, 0), (0, 1, 1), (0, 2, 0)))
    twice = LabelledGraph(("v", "op", "op"), ((0, 1, 0), (0, 2, 0), (0, 2, 0)))
    assert isomorphism(once, twice) is None
    assert isomorphism(once, permuted(once, [2, 1, 0])) == (2, 1, 0)


def test_digest_is_the_same_in_every_process() -> None:
    """Python hashes strings differently each time."""
    graph = LabelledGraph(("a", ("b", None)), ((0, 1, "x"),))
    assert graph.digest == "d05e21db918fa39831dcf8a6a94993baf712d99735a5dcdf1a0d02bb53de0144"
