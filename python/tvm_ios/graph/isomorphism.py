# SPDX-License-Identifier: Apache-2.0
"""Whether two labelled graphs are the same but for the order of their nodes."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

_MAX_STEPS = 20_000  # assignments tried; graphs that need more are taken for different


@dataclass(frozen=True)
class LabelledGraph:
    """A directed graph with labels on its nodes and edges.

    Attributes
    ----------
    labels : tuple of Hashable
        Of the nodes, which are ``0 .. n - 1``. Equal labels must have equal representations
        (``repr``), and those must be the same in every process, as :attr:`digest` is made of them.
    edges : tuple of (int, int, Hashable)
        Source, target and label, which is as above. Edges of one source and target may repeat.
    """

    labels: tuple[Hashable, ...]
    edges: tuple[tuple[int, int, Hashable], ...]

    @cached_property
    def colours(self) -> tuple[str, ...]:
        """A hash per node of what is around it, which corresponding nodes of equal graphs share.

        Colour refinement (Weisfeiler and Leman): in each round a node's colour takes in those of
        its neighbours, until that tells no more nodes apart.
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
        """Equal for graphs that are equal, the same in every process, and else very likely not."""
        return _hash("".join(sorted(self.colours)))

    @cached_property
    def between(self) -> dict[tuple[int, int], list[str]]:
        """The labels of the edges from one node to another, as representations, sorted."""
        result: dict[tuple[int, int], list[str]] = defaultdict(list)
        for source, target, label in sorted(self.edges, key=repr):
            result[source, target].append(repr(label))
        return dict(result)

    def _links(self) -> list[list[tuple[int, str]]]:
        """Per node its neighbours, each with the direction and the label of the edge."""
        links: list[list[tuple[int, str]]] = [[] for _ in self.labels]
        for source, target, label in self.edges:
            links[source].append((target, f">{label!r}"))
            links[target].append((source, f"<{label!r}"))
        return links

    @cached_property
    def neighbours(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(sorted({n for n, _ in near})) for near in self._links())


def isomorphism(a: LabelledGraph, b: LabelledGraph) -> tuple[int, ...] | None:
    """For each node of ``a`` the node of ``b`` that corresponds to it; None if there are none such.

    Nodes that nothing tells apart keep their order where that is possible. The search goes back
    where a choice fails; after :data:`_MAX_STEPS` choices the answer is None, too, although it is
    not known then.
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
    """Whether ``node`` may correspond to ``chosen`` beside what corresponds already.

    Equal colours have seen to equal numbers of edges; that those between nodes that were assigned
    agree is left to check, and the labels, of which colours hold but a hash.
    """
    pairs = [(other, image[other]) for other in a.neighbours[node] if other in image]
    pairs.append((node, chosen))
    return a.labels[node] == b.labels[chosen] and all(
        a.between.get((node, other)) == b.between.get((chosen, its))
        and a.between.get((other, node)) == b.between.get((its, chosen))
        for other, its in pairs
    )


def _connected_order(graph: LabelledGraph) -> list[int]:
    """All nodes, each if possible after a neighbour, so that a wrong choice shows early."""
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
