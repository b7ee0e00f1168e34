# SPDX-License-Identifier: Apache-2.0
"""Division of single operators among workers, so that each worker reads mostly what it wrote.

The tiles of a convolution are divided by output channels: each worker then reads only its share of
the weights, but the whole input, most of which other workers have in their caches. If the workers
divide the rows instead, each reads the rows that it wrote before, but all of the weights. Which is
cheaper depends on the sizes, and on how the operators that produce the inputs are divided. A model
of the cache-to-cache traffic, the bytes that a worker reads and another one wrote, compares the two
for the whole network.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from ....lowering.implementation import Implementation
from ....sizes.size import hint_of
from ..core import MachineBalance
from ..kernels.kernel import Kernel, Order
from ..kernels.plane import PlaneTiles
from ..rules.base import CpuLoweredGraph

_REMOTE = 4.0  # reading what another core wrote last, in reads from L3
_LAST_CACHE = 8 << 20  # bytes that L3 holds from one pass over a feature map to the next
_SWEEPS = 8  # of the descent; few networks need more than three


def divided_by_rows(lowered: CpuLoweredGraph, workers: int) -> frozenset[int]:
    """Return the operators that are predicted to be faster if their rows are divided.

    Parameters
    ----------
    lowered : CpuLoweredGraph
        The network, of which one operator runs after another.
    workers : int
        Number of workers.

    Returns
    -------
    frozenset of int
        Operators whose kernels have planes; the tiles of the others are divided by number.
    """
    model = Traffic.of(lowered, workers)
    starts = (frozenset[int](), frozenset(model.planes))
    return min((model.descend(set(start)) for start in starts), key=model.total)


@dataclass(frozen=True)
class _Read:
    """An input that another operator wrote.

    Attributes
    ----------
    producer : int
    vectors : float
        Of the whole input.
    whole : bool
        Whether a worker that computes some channels reads all of it.
    """

    producer: int
    vectors: float
    whole: bool


@dataclass(frozen=True)
class Traffic:
    """The cache-to-cache traffic of each division: its cost in vector multiply-adds of a worker.

    Attributes
    ----------
    workers : int
    remote : float
        Cost of a vector that another worker wrote.
    fixed : list of (float, float)
        The cost of an operator by tiles and by rows, without reading what others wrote.
    reads : list of list of _Read
    orders : list of Order or None
        What of the result each worker computes by tiles.
    planes : dict of int to PlaneTiles
        Of the operators that can be divided by rows.
    """

    workers: int
    remote: float
    fixed: list[tuple[float, float]]
    reads: list[list[_Read]]
    orders: list[Order | None]
    planes: dict[int, PlaneTiles]

    @staticmethod
    def of(lowered: CpuLoweredGraph, workers: int) -> Traffic:
        lanes, balance = lowered.config.core.lanes, lowered.config.balance
        made = list(lowered.implementations)
        planes = {n: p for n, i in enumerate(made) if i is not None and (p := _plane(i.kernel))}
        flops = [op.flops for op in lowered.graph.operators]
        fixed = [
            _fixed(implementation, flops[n] / (2 * lanes), planes.get(n), workers, balance, lanes)
            for n, implementation in enumerate(made)
        ]
        reads = [list(_reads(lowered, n, planes.get(n))) for n in range(len(made))]
        orders = [None if i is None else _order(i.kernel) for i in made]
        return Traffic(workers, _REMOTE * balance.far, fixed, reads, orders, planes)

    def descend(self, rows: set[int]) -> frozenset[int]:
        """Improve a division operator by operator until no single change makes it cheaper."""
        readers: list[list[int]] = [[] for _ in self.fixed]
        for number, reads in enumerate(self.reads):
            for read in reads:
                readers[read.producer].append(number)
        for _ in range(_SWEEPS):
            changed = False
            for number in self.planes:
                concerned = {number, *readers[number]}
                before = sum(self.cost(n, rows) for n in concerned)
                after = sum(self.cost(n, rows ^ {number}) for n in concerned)
                if after < before:
                    rows ^= {number}
                    changed = True
            if not changed:
                break
        return frozenset(rows)

    def total(self, rows: AbstractSet[int]) -> float:
        """Return the cost of the whole network."""
        return sum(self.cost(n, rows) for n in range(len(self.fixed)))

    def cost(self, number: int, rows: AbstractSet[int]) -> float:
        """Return the cost of one operator: what it does, and what it reads from other workers."""
        order, moved = self._order(number, rows), 0.0
        for read in self.reads[number]:
            if order is None or (read.whole and order == "channels"):
                moved += read.vectors
            elif order != self._order(read.producer, rows):
                moved += read.vectors / self.workers
        others = (self.workers - 1) / self.workers
        return self.fixed[number][number in rows] + self.remote * others * moved

    def _order(self, number: int, rows: AbstractSet[int]) -> Order | None:
        """Return what of an operator's result each worker computes."""
        return "rows" if number in rows else self.orders[number]


def _plane(kernel: Kernel) -> PlaneTiles | None:
    """Return the plane of a kernel for one image; images are divided among workers as they are."""
    plane = kernel.plane
    return plane if plane is not None and plane.images == 1 and kernel.phases else None


def _order(kernel: Kernel) -> Order | None:
    """Return what consecutive tiles of a kernel cover; those of a single plane cover rows."""
    if kernel.plane is None:
        return kernel.order
    return "rows" if kernel.plane.outer == 1 else "channels"


def _fixed(
    implementation: Implementation[Kernel] | None,
    multiply_adds: float,
    plane: PlaneTiles | None,
    workers: int,
    balance: MachineBalance,
    lanes: int,
) -> tuple[float, float]:
    """Return the cost of the longest share and of its weights, by tiles and by rows."""
    if implementation is None or plane is None:
        return 0.0, 0.0
    weights = balance.memory * _vectors(
        lanes, (v.nbytes for v in implementation.inputs if isinstance(v, np.ndarray))
    )
    work, read_again = multiply_adds / workers, balance.memory * _read_again(implementation, plane)
    return (
        work * _longest(plane.outer * plane.num_tiles, workers)
        + (weights + read_again / lanes) / workers,
        work * _longest(plane.num_tiles, workers) + weights,
    )


def _read_again(implementation: Implementation[Kernel], plane: PlaneTiles) -> float:
    """Return the elements that are read from memory again, for each but the first channels.

    Row strips are computed for all channels while a cache holds what they read.
    """
    num_bytes = implementation.kernel.inputs[0].num_bytes if plane.mixes else 0
    weights = sum(v.nbytes for v in implementation.inputs if isinstance(v, np.ndarray))
    if num_bytes <= _LAST_CACHE or weights > _LAST_CACHE:
        return 0.0
    return (plane.outer - 1) * num_bytes / 4


def _longest(num_tiles: int, workers: int) -> float:
    """Return the longest share of ``num_tiles`` equal tiles, in shares of the mean."""
    return math.ceil(num_tiles / workers) * workers / num_tiles


def _reads(lowered: CpuLoweredGraph, number: int, plane: PlaneTiles | None) -> Iterator[_Read]:
    """Yield what an operator reads from others.

    A convolution reads all channels of its feature map, but only its own pixels of what its
    epilogue adds.
    """
    implementation = lowered.implementations[number]
    for producer in lowered.graph.predecessors[number]:
        whole = False
        if implementation is not None and plane is not None and plane.mixes:
            image = implementation.inputs[0]
            outputs = lowered.graph.operators[producer].outputs
            whole = any(output.same_as(image) for output in outputs)
        yield from _written(lowered, producer, whole)


def _written(lowered: CpuLoweredGraph, producer: int, whole: bool) -> Iterator[_Read]:
    """Yield what a producer wrote; those of its parts for one that computes nothing."""
    implementation = lowered.implementations[producer]
    if implementation is None:
        return
    if implementation.kernel.is_noop:
        for before in lowered.graph.predecessors[producer]:
            yield from _written(lowered, before, whole)
        return
    lanes = lowered.config.core.lanes
    vectors = _vectors(lanes, (hint_of(spec.num_bytes) for spec in implementation.kernel.outputs))
    yield _Read(producer, vectors, whole)


def _vectors(lanes: int, sizes: Iterable[int]) -> float:
    """Return how many vectors tensors of these bytes fill."""
    return sum(sizes) / (4 * lanes)
