# SPDX-License-Identifier: Apache-2.0
"""What is known of a network's operators before any stage of several is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from ...lowering.implementation import Implementation, LoweredGraph, Slot, moved_bytes
from ...lowering.kernel import Kernel

CLASSES = (
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
"""Names of kernels; any other kernel belongs to one more class."""

COLUMNS = (
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


@dataclass(frozen=True)
class OperatorTable:
    """The table that features of stages are computed from, with one row per operator.

    Attributes
    ----------
    values : dict of str to numpy.ndarray
        float64 [n] for each of :data:`COLUMNS`; zeros for an operator without a kernel.
    classes : numpy.ndarray
        int [n]: the class of each operator's kernel, an index into :data:`CLASSES`.
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
        table = np.zeros((count, len(COLUMNS)))
        classes = np.full(count, len(CLASSES))
        for index, implementation in enumerate(lowered.implementations):
            if implementation is None:
                continue
            kernel = implementation.kernel
            if kernel.name in CLASSES:
                classes[index] = CLASSES.index(kernel.name)
            flops = lowered.graph.operators[index].flops
            alone = on_one_worker.get(kernel.key, 0.0)
            sizes = _sizes(implementation, lowered.slots)
            table[index] = (seconds[index], alone, flops, *sizes)
        values = {name: table[:, i].copy() for i, name in enumerate(COLUMNS)}
        return cls(values, classes, np.array(lowered.graph.edges, "int64").reshape(-1, 2))


def _sizes(
    implementation: Implementation[Kernel], slots: Mapping[relax.Var, Slot]
) -> tuple[float, ...]:
    """Return bytes moved, of weights and written; tiles; phases; whether row strips can be cut."""
    kernel = implementation.kernel
    inputs, outputs = moved_bytes(implementation, slots)
    values = zip(implementation.inputs, inputs, strict=True)
    weights = sum(size for value, size in values if isinstance(value, np.ndarray))
    written = sum(outputs)
    moved = 0 if kernel.is_noop else sum(inputs) - weights + written
    return moved, weights, written, kernel.num_tiles, kernel.num_phases, kernel.plane is not None
