# SPDX-License-Identifier: Apache-2.0
"""Randomly wired blocks, and cost models that measure nothing, for tests of the search."""

from __future__ import annotations

import random
import zlib
from collections.abc import Hashable, Sequence

import numpy as np

from tvm_ios.graph.dag import Candidate, Dag
from tvm_ios.schedule.pruning import PruningLimits
from tvm_ios.search.block import Block
from tvm_ios.search.bundles import Bundles
from tvm_ios.search.cost_model import BestThrough, Promising, nothing


def random_wiring(num_ops: int, seed: int = 0) -> Dag:
    """A graph in which each operator reads up to two earlier ones."""
    draw = random.Random(seed)
    pairs = [(draw.randrange(max(0, i - 8), i), i) for i in range(1, num_ops) for _ in range(2)]
    return Dag(num_ops, pairs)


def block_of(dag: Dag, operators: Sequence[int]) -> Block:
    """Some operators of a graph, of which none is replaced."""
    place = {op: i for i, op in enumerate(operators)}
    edges = [(place[u], place[v]) for u, v in dag.edges if u in place and v in place]
    before: list[list[int]] = [[] for _ in range(dag.num_ops)]
    for u, v in dag.edges:
        before[v].append(u)
    bundles = Bundles(range(dag.num_ops), before)
    graph, alone = Dag(len(operators), edges), [-1] * len(operators)
    return Block(bundles, operators, graph, alone, [], PruningLimits())


def price(candidate: Candidate) -> float:
    """A third of a second per operator at least, and up to a second for the stage."""
    draw = zlib.crc32(repr(candidate).encode()) % 1000 / 1000
    return len(candidate.ops) / 3 + (0.5 + draw / 2 if len(candidate.ops) > 1 else 0.6)


def prices(candidates: Sequence[Candidate]) -> np.ndarray:
    return np.array([price(candidate) for candidate in candidates])


class GradualCost:
    """A cost model that bounds the price of a stage until it is resolved.

    Parameters
    ----------
    floor : float
        The floor of every operator.
    """

    equal_blocks_cost_the_same = True
    measurements = 0

    def __init__(self, floor: float = 0.3) -> None:
        self.floor = floor
        self.operator_seconds: dict[Hashable, float] = {}
        self.resolved: set[Candidate] = set()
        self.batches: list[int] = []

    def __call__(self, candidates: Sequence[Candidate]) -> np.ndarray:
        return prices(candidates)

    def latency_bounds(self, candidates: Sequence[Candidate]) -> GradualBounds:
        self.batches.append(len(candidates))
        return GradualBounds(self, candidates)

    def floors(self, ops: Sequence[int]) -> np.ndarray:
        return np.full(len(ops), self.floor)

    def resolve(self, candidates: Sequence[Candidate], promising: Promising = nothing) -> int:
        new = set(candidates) - self.resolved
        self.resolved |= new
        return len(new)

    def agrees(self, _candidates: Sequence[Candidate]) -> bool:
        return True

    def in_network(self, candidates: Sequence[Candidate]) -> np.ndarray:
        return prices(candidates)

    def partitioning(self, _candidate: Candidate) -> str:
        return "tiles"


class GradualBounds:
    """What a cost model knows of some candidates."""

    def __init__(self, cost: GradualCost, candidates: Sequence[Candidate]) -> None:
        self._cost, self._candidates = cost, candidates

    def bounds(self) -> np.ndarray:
        known = [candidate in self._cost.resolved for candidate in self._candidates]
        return prices(self._candidates) * np.where(known, 1.0, 0.95)

    def stated(self) -> np.ndarray:
        return self.bounds()

    def known(self) -> np.ndarray:
        single = [len(c.ops) == 1 for c in self._candidates]
        return np.array(single) | [c in self._cost.resolved for c in self._candidates]

    def lookup(self, through: BestThrough) -> None:
        """Resolve the stages that are nearest to a cheapest schedule."""
        latencies = through(self.bounds())
        assert latencies.shape == (len(self._candidates),)
        self._cost.resolve([self._candidates[int(np.argmin(latencies))]])
