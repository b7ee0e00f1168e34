# SPDX-License-Identifier: Apache-2.0
"""Operators that are predicted to be faster fused by row strips, without being measured.

Row strips are fused tiling with halo recomputation, see :mod:`.strips`.

A pooling does little with what it reads. If the feature map of the convolution before it does not
fit into the caches, reading it takes longer than computing the pooling. By row strips the pooling
reads rows that were just written.
"""

from __future__ import annotations

from collections.abc import Iterator

from tvm import relax

from ....sizes.size import hint_of
from ..rules.base import CpuLoweredGraph

_POOLINGS = frozenset(("max_pool2d", "avg_pool2d"))


def pooled_by_strips(lowered: CpuLoweredGraph, workers: int) -> Iterator[tuple[int, int]]:
    """Yield operators on one image and the poolings that alone read them, as pairs.

    Whether row strips can be cut of them is not considered.

    Parameters
    ----------
    lowered : CpuLoweredGraph
        The network.
    workers : int
        Number of workers, among which the rows of a feature map are divided.
    """
    graph = lowered.graph
    for op in graph.operators:
        if op.kind not in _POOLINGS or len(graph.predecessors[op.index]) != 1:
            continue
        (producer,) = graph.predecessors[op.index]
        (value, *others) = graph.operators[producer].outputs
        # A variable that is not the dataflow block's own is seen outside of it.
        inner = isinstance(value, relax.DataflowVar) and not others
        if not inner or graph.readers.get(value) != (op.index,) or value in lowered.slots:
            continue
        implementation = lowered.implementations[producer]
        plane = None if implementation is None else implementation.kernel.plane
        if implementation is None or plane is None or plane.images > 1:
            continue
        if (
            hint_of(implementation.kernel.outputs[0].num_bytes)
            > workers * lowered.config.core.l2_bytes
        ):
            yield producer, op.index
