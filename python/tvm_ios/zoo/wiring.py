# SPDX-License-Identifier: Apache-2.0
"""Random graphs (Watts and Strogatz, Nature 393, 1998) as the wiring of a network."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Wiring:
    """A directed acyclic graph.

    Attributes
    ----------
    sources : tuple of tuple of int
        The nodes that each node reads, all of which come before it.
    """

    sources: tuple[tuple[int, ...], ...]

    @property
    def sinks(self) -> tuple[int, ...]:
        """The nodes that no other node reads."""
        read = {u for sources in self.sources for u in sources}
        return tuple(v for v in range(len(self.sources)) if v not in read)


def watts_strogatz(nodes: int, neighbors: int, rewiring: float, seed: int) -> Wiring:
    """Draw a small-world graph: a ring of neighbours with some edges rewired.

    The ring is traversed once for each distance at which there are neighbours. Each edge to the
    node ahead is moved, with probability `rewiring`, to a random node that is not a neighbour yet.
    Every edge is then directed from the lower to the higher number (Xie et al., arXiv 1904.01569,
    sections 3.2 and 3.3).

    Parameters
    ----------
    nodes : int
        The number of nodes.
    neighbors : int
        The number of neighbours of each node in the ring, an even number.
    rewiring : float
        The probability of rewiring an edge.
    seed : int
        The seed of the generator.
    """
    # The only method whose stream is the same in all Python releases.
    draw = random.Random(seed).random
    ahead = range(1, neighbors // 2 + 1)
    adjacent = [{(v + d) % nodes for d in (*ahead, *(-d for d in ahead))} for v in range(nodes)]
    for distance in ahead:
        for v in range(nodes):
            if draw() < rewiring:
                _rewire(adjacent, v, (v + distance) % nodes, draw())
    return Wiring(tuple(tuple(sorted(u for u in adjacent[v] if u < v)) for v in range(nodes)))


def _rewire(adjacent: Sequence[set[int]], v: int, old: int, where: float) -> None:
    """Move the edge from `v` to `old`; `where`, from 0 to 1, selects one of the free nodes."""
    free = [u for u in range(len(adjacent)) if u != v and u not in adjacent[v]]
    if not free:
        return
    new = free[int(where * len(free))]
    adjacent[v].remove(old)
    adjacent[old].remove(v)
    adjacent[v].add(new)
    adjacent[new].add(v)
