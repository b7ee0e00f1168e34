# SPDX-License-Identifier: Apache-2.0
"""Features of stages, computed for tens of thousands at once.

A stage is described relative to its operators in serial order, each on all workers. These latencies
are measured before anything else, so the model predicts only how much a stage saves or loses
against them. A stage can save barriers, the time in which workers wait for an operator's last tile,
and reads of what another operator has just written. It loses if its data no longer fits the caches,
or if its work partitioning is uneven.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...backend.shared.implementation import Implementation, LoweredGraph
from ...backend.shared.kernel import Kernel
from ...graph.dag import Candidate

_CLASSES = (
    "conv2d",
    "conv2d_pointwise",
    "conv2d_winograd",
    "depthwise",
    "max",
    "average",
    "identity",
    "concat",
    "matmul",
)
"""Names of kernels; any other kernel belongs to the class ``other``."""

_COLUMNS = (
    "seconds",
    "on_one_worker",
    "flops",
    "moved",
    "weights",
    "written",
    "tiles",
    "phases",
    "plane",
)

FEATURES = (
    "operators",
    "groups",
    "merge",
    "depth",  # operators in the longest chain
    "seconds",  # log: all operators in serial order on all workers
    "flops",  # log
    "moved",  # log: bytes read and written, without weights
    "weights",  # log: bytes of constants
    "intensity",  # log: operations per byte
    "largest",  # the longest operator's share of the time
    "parallel",  # parallel efficiency: time on one worker over workers times the time on all
    "uneven",  # share of the time lost against an even partitioning
    "waiting",  # share of the time spent waiting for an operator's last tile
    "balance",  # time of the longest group over an even share of the work
    "tiles",  # log: tiles per worker
    "phases",
    "passed",  # share of the moved bytes that one operator writes for another
    "passed_in_cache",  # log: those bytes over the L2 caches of all workers
    "working_set",  # log: all bytes over the L2 caches of all workers
    "planes",  # share of the operators that can be computed in row strips
    *(f"share_{name}" for name in (*_CLASSES, "other")),  # each class's share of the time
)


@dataclass(frozen=True)
class OperatorTable:
    """The table that features of stages are computed from, with one row per operator.

    Attributes
    ----------
    values : dict of str to numpy.ndarray
        float64 [n] for each column; zeros for an operator without a kernel.
    classes : numpy.ndarray
        int [n]: the class of each operator's kernel.
    edges : numpy.ndarray
        int [m, 2]: producer and consumer.
    """

    values: dict[str, np.ndarray]
    classes: np.ndarray
    edges: np.ndarray

    @classmethod
    def of(
        cls,
        lowered: LoweredGraph[Kernel],
        seconds: Sequence[float],
        on_one_worker: Mapping[Any, float],
    ) -> OperatorTable:
        """Build the table of a network's operators.

        Parameters
        ----------
        lowered : LoweredGraph
            The operator graph and its implementations.
        seconds : sequence of float
            Seconds of each operator alone on all workers.
        on_one_worker : mapping of kernel key to float
            Seconds on one worker.
        """
        count = len(lowered.implementations)
        table = np.zeros((count, len(_COLUMNS)))
        classes = np.full(count, len(_CLASSES))
        for index, implementation in enumerate(lowered.implementations):
            if implementation is None:
                continue
            kernel = implementation.kernel
            if kernel.name in _CLASSES:
                classes[index] = _CLASSES.index(kernel.name)
            flops = lowered.graph.operators[index].flops
            alone = on_one_worker.get(kernel.key, 0.0)
            table[index] = (seconds[index], alone, flops, *_sizes(implementation))
        values = {name: table[:, i].copy() for i, name in enumerate(_COLUMNS)}
        return cls(values, classes, np.array(lowered.graph.edges, "int64").reshape(-1, 2))


def _sizes(implementation: Implementation[Kernel]) -> tuple[float, ...]:
    """Return bytes moved, of weights and written; tiles; phases; whether row strips can be cut."""
    kernel = implementation.kernel
    pairs = list(zip(implementation.inputs, kernel.inputs, strict=True))
    weights = sum(spec.num_bytes for value, spec in pairs if isinstance(value, np.ndarray))
    read = sum(spec.num_bytes for value, spec in pairs if not isinstance(value, np.ndarray))
    written = sum(spec.num_bytes for spec in kernel.outputs)
    moved = 0 if kernel.free else read + written
    return moved, weights, written, kernel.tiles, kernel.steps, kernel.plane is not None


@dataclass(frozen=True)
class StageFeatures:
    """A feature extractor for candidate stages of one network.

    Attributes
    ----------
    table : OperatorTable
        The operators.
    workers : int
        The number of workers.
    cache_bytes : int
        The size of one core's L2, in bytes.
    """

    table: OperatorTable
    workers: int
    cache_bytes: int

    def serial(self, candidates: Sequence[Candidate]) -> np.ndarray:
        """Return the seconds of each candidate's operators in serial order, float64 [n]."""
        stages = _Members.of(candidates, len(self.table.classes))
        return stages.sum(self.table.values["seconds"][stages.op])

    def __call__(self, candidates: Sequence[Candidate]) -> np.ndarray:
        """Return the features in the order of :data:`FEATURES`, float32 [n, features]."""
        stages = _Members.of(candidates, len(self.table.classes))
        values = {name: column[stages.op] for name, column in self.table.values.items()}
        totals = {name: stages.sum(column) for name, column in values.items()}
        inner = stages.inner_edges(self.table.edges)
        group = stages.groups(inner)
        serial = np.maximum(totals["seconds"], 1e-9)
        caches = self.cache_bytes * self.workers
        rounds = np.ceil(values["tiles"] / self.workers)
        full = values["tiles"] / np.maximum(rounds * self.workers, 1)
        waiting = values["seconds"] * (1 - full) * (values["tiles"] > 0)
        uneven = np.maximum(values["seconds"] - values["on_one_worker"] / self.workers, 0.0)
        even = np.maximum(totals["on_one_worker"] / self.workers, 1e-12)
        passed = stages.sum(_passed(values["written"], inner))
        columns = [
            stages.size,
            stages.sum((group == np.arange(len(group))).astype("float64")),
            np.array([c.strategy == "merge" for c in candidates], "float64"),
            stages.max(stages.depths(inner)),
            np.log(serial),
            np.log1p(totals["flops"]),
            np.log1p(totals["moved"]),
            np.log1p(totals["weights"]),
            np.log1p(totals["flops"]) - np.log1p(totals["moved"] + totals["weights"]),
            stages.max(values["seconds"]) / serial,
            totals["on_one_worker"] / (serial * self.workers),
            stages.sum(uneven) / serial,
            stages.sum(waiting) / serial,
            stages.max(np.bincount(group, values["on_one_worker"], len(group))) / even,
            np.log1p(totals["tiles"] / self.workers),
            totals["phases"],
            passed / np.maximum(totals["moved"], 1),
            np.log1p(passed / caches),
            np.log1p((totals["moved"] + totals["weights"]) / caches),
            totals["plane"] / stages.size,
        ]
        classes = self.table.classes[stages.op]
        for number in range(len(_CLASSES) + 1):
            columns.append(stages.sum(values["seconds"] * (classes == number)) / serial)
        result = np.stack(columns, axis=1).astype("float32")
        assert result.shape[1] == len(FEATURES), "each feature has a name"
        return result


def _passed(written: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """Return the bytes that each member writes for others of its stage, float64 [members]."""
    result = np.zeros(len(written))
    producers = np.unique(inner[:, 0])
    result[producers] = written[producers]
    return result


@dataclass(frozen=True)
class _Members:
    """The operators of many stages, concatenated.

    Attributes
    ----------
    op, stage : numpy.ndarray
        int64 [members]: the operator, and the stage that it belongs to.
    begin : numpy.ndarray
        int64 [stages]: the first member of each stage.
    size : numpy.ndarray
        float64 [stages]: the number of members.
    num_ops : int
        The number of operators of the network.
    """

    op: np.ndarray
    stage: np.ndarray
    begin: np.ndarray
    size: np.ndarray
    num_ops: int

    @staticmethod
    def of(candidates: Sequence[Candidate], num_ops: int) -> _Members:
        sizes = np.array([len(c.ops) for c in candidates], "int64")
        op = np.fromiter((i for c in candidates for i in c.ops), "int64", int(sizes.sum()))
        begin = np.cumsum(sizes) - sizes
        stage = np.repeat(np.arange(len(sizes)), sizes)
        return _Members(op, stage, begin, sizes.astype("float64"), num_ops)

    def sum(self, values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values, self.begin) if len(self.begin) else np.zeros(0)

    def max(self, values: np.ndarray) -> np.ndarray:
        return np.maximum.reduceat(values, self.begin) if len(self.begin) else np.zeros(0)

    def inner_edges(self, edges: np.ndarray) -> np.ndarray:
        """Return the pairs (producer, consumer) of members of one stage, int64 [edges, 2]."""
        order = np.argsort(edges[:, 1], kind="stable")
        producers = edges[order, 0]
        count = np.bincount(edges[:, 1], minlength=self.num_ops)
        first = np.cumsum(count) - count
        repeats = count[self.op]
        consumer = np.repeat(np.arange(len(self.op)), repeats)
        within = np.arange(len(consumer)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        producer = producers[first[self.op[consumer]] + within] if len(consumer) else consumer
        # Members are sorted by stage and operator, because a candidate's operators are sorted.
        keys = self.stage * self.num_ops + self.op
        wanted = self.stage[consumer] * self.num_ops + producer
        place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        found = keys[place] == wanted if len(keys) else np.zeros(0, bool)
        return np.stack([place[found], consumer[found]], axis=1)

    def groups(self, inner: np.ndarray) -> np.ndarray:
        """Return the first member of each member's group, int64 [members]."""
        label = np.arange(len(self.op))
        while True:
            before = label.copy()
            np.minimum.at(label, inner[:, 0], label[inner[:, 1]])
            np.minimum.at(label, inner[:, 1], label[inner[:, 0]])
            if np.array_equal(before, label):
                return label

    def depths(self, inner: np.ndarray) -> np.ndarray:
        """Return the length of the longest chain that ends in each member, float64 [members]."""
        depth = np.ones(len(self.op))
        while True:
            before = depth.copy()
            np.maximum.at(depth, inner[:, 1], depth[inner[:, 0]] + 1)
            if np.array_equal(before, depth):
                return depth
