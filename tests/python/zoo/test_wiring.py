# SPDX-License-Identifier: Apache-2.0
"""The random graphs by which a network is wired."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tvm_ios.zoo.wiring import Wiring, watts_strogatz


def _edges(wiring: Wiring) -> set[tuple[int, int]]:
    return {(u, v) for v, sources in enumerate(wiring.sources) for u in sources}


def test_without_rewiring_it_is_a_ring() -> None:
    ring = {tuple(sorted((v, (v + d) % 9))) for v in range(9) for d in (1, 2)}
    assert _edges(watts_strogatz(9, 4, 0.0, seed=3)) == ring


def test_sinks() -> None:
    wiring = Wiring(((), (), (0, 1), (1,), (2,)))
    assert wiring.sinks == (3, 4)


def test_the_seed_determines_it() -> None:
    graphs = [watts_strogatz(32, 4, 0.75, seed) for seed in (0, 0, 1)]
    assert graphs[0] == graphs[1] != graphs[2]


def test_the_stream_of_random_numbers_is_not_exchanged() -> None:
    """A benchmark of today and one of next year are to run the same network."""
    wiring = watts_strogatz(6, 2, 0.75, seed=5)
    assert wiring.sources == ((), (), (1,), (2,), (0, 2), (0, 3))


@given(st.integers(5, 40), st.sampled_from([2, 4]), st.floats(0, 1), st.integers(0, 10**6))
def test_edges_are_moved_and_never_lost(
    nodes: int, neighbors: int, rewiring: float, seed: int
) -> None:
    wiring = watts_strogatz(nodes, neighbors, rewiring, seed)
    assert sum(map(len, wiring.sources)) == nodes * neighbors // 2 == len(_edges(wiring))
    assert all(0 <= u < v for u, v in _edges(wiring))
    # Each node keeps the edges that it holds itself: half of them.
    degree = [sum(v in edge for edge in _edges(wiring)) for v in range(nodes)]
    assert min(degree) >= neighbors // 2
