# SPDX-License-Identifier: Apache-2.0
"""Isomorphism of labelled graphs."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

_MAX_STEPS = 20_000  # assignments; graphs that need more count as different


@dataclass(frozen=True)
class LabelledGraph:
    """A directed graph with labels on its nodes and edges.

    Attributes
    ----------
    labels : tuple of Hashable
        The labels of the nodes ``0 .. n - 1``. Equal labels must have equal representations
        (``repr``), the same in every process, because :attr:`digest` is computed from them.
    edges : tuple of (int, int, Hashable)
        Source, target and label; the label is as above. Edges between the same nodes may repeat.
    """

    labels: tuple[Hashable, ...]
    edges: tuple[tuple[int, int, Hashable], ...]

    @cached_property
    def colours(self) -> tuple[str, ...]:
        """A hash of each node's neighbourhood, equal for corresponding nodes of equal graphs.

        Colour refinement (Weisfeiler and Leman): in each round a node's colour absorbs those of its
        neighbours, until the number of colours no longer grows.
        """
        colours = [_hash(repr(label)) for label in self.labels]
        links = self._links()
        while True:
            around = [sorted(f"{mark}{colours[n]}" for n, mark in near) for near in links]
            finer = [
                _hash(f"{own}{sorted_near}")
                for own, sorted_near in zip(colours, around, strict=True)
            ]
            if len(set(finer)) == len(set(colours)):
                return tuple(finer)
            colours = finer

    @cached_property
    def digest(self) -> str:
        """A hash that is equal for equal graphs in every process, and very likely differs else."""
        return _hash("".join(sorted(self.colours)))

    @cached_property
    def between(self) -> dict[tuple[int, int], list[str]]:
        """The labels of the edges from one node to another, as sorted representations."""
        result: dict[tuple[int, int], list[str]] = defaultdict(list)
        for source, target, label in sorted(self.edges, key=repr):
            result[source, target].append(repr(label))
        return dict(result)

    def _links(self) -> list[list[tuple[int, str]]]:
        """Return the neighbours of each node, with the direction and the label of the edge."""
        links: list[list[tuple[int, str]]] = [[] for _ in self.labels]
        for source, target, label in self.edges:
            links[source].append((target, f">{label!r}"))
            links[target].append((source, f"<{label!r}"))
        return links

    @cached_property
    def neighbours(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(sorted({n for n, _ in near})) for near in self._links())


def isomorphism(a: LabelledGraph, b: LabelledGraph) -> tuple[int, ...] | None:
    """Return the node of ``b`` that corresponds to each node of ``a``; None if there is no mapping.

    Nodes that cannot be distinguished keep their order where possible. The search backtracks if a
    choice fails. After :data:`_MAX_STEPS` choices the result is None, although an isomorphism may
    exist.
    """
    if a.digest != b.digest or len(a.labels) != len(b.labels) or len(a.edges) != len(b.edges):
        return None
    alike: dict[str, list[int]] = defaultdict(list)
    for node, colour in enumerate(b.colours):
        alike[colour].append(node)
    order = _connected_order(a)
    image: dict[int, int] = {}
    choices = [iter(alike[a.colours[order[0]]])] if order else []
    for _ in range(_MAX_STEPS):
        if len(image) == len(order):
            return tuple(image[node] for node in range(len(order)))
        node = order[len(image)]
        used = set(image.values())
        chosen = next((c for c in choices[-1] if c not in used and _fits(a, b, image, node, c)), -1)
        if chosen >= 0:
            image[node] = chosen
            if len(image) < len(order):
                choices.append(iter(alike[a.colours[order[len(image)]]]))
            continue
        choices.pop()
        if not choices:
            return None
        image.popitem()
    return None


def _fits(
    a: LabelledGraph, b: LabelledGraph, image: dict[int, int], node: int, chosen: int
) -> bool:
    """Return whether ``node`` may correspond to ``chosen``, given the correspondences so far.

    Equal colours imply equal numbers of edges. It remains to compare the edges between assigned
    nodes, and the labels, because a colour is only their hash.
    """
    pairs = [(other, image[other]) for other in a.neighbours[node] if other in image]
    pairs.append((node, chosen))
    return a.labels[node] == b.labels[chosen] and all(
        a.between.get((node, other)) == b.between.get((chosen, its))
        and a.between.get((other, node)) == b.between.get((its, chosen))
        for other, its in pairs
    )


def _connected_order(graph: LabelledGraph) -> list[int]:
    """Return all nodes, each after a neighbour if possible, so that a wrong choice fails early."""
    order: list[int] = []
    seen: set[int] = set()
    for start in _rarest_first(graph.colours):
        waiting = [] if start in seen else [start]
        seen.add(start)
        for node in waiting:
            order.append(node)
            fresh = [n for n in graph.neighbours[node] if n not in seen]
            seen.update(fresh)
            waiting += fresh
    return order


def _rarest_first(colours: Sequence[str]) -> Iterable[int]:
    count: dict[str, int] = defaultdict(int)
    for colour in colours:
        count[colour] += 1
    return sorted(range(len(colours)), key=lambda node: (count[colours[node]], node))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
