# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers that run at the same time, without being measured.

A layer's steps follow one another, so that a worker computes rows of the batch, and others wait if
there are fewer rows. The directions of a bidirectional layer do not depend on each other.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..rules.base import CpuLoweredGraph


def recurrences_at_once(lowered: CpuLoweredGraph, workers: int) -> Iterator[tuple[int, ...]]:
    """Yield layers that read alike, as many at a time as workers would be idle beside one.

    Parameters
    ----------
    lowered : CpuLoweredGraph
        The network.
    workers : int
    """
    found: list[int] = []
    for op in _recurrences(lowered):
        if found and not _fits(lowered, found, op, workers):
            yield from _several(found)
            found = []
        found.append(op)
    yield from _several(found)


def _recurrences(lowered: CpuLoweredGraph) -> Iterator[int]:
    for op, implementation in enumerate(lowered.implementations):
        if implementation is not None and implementation.kernel.name == "recurrence":
            yield op


def _fits(lowered: CpuLoweredGraph, found: list[int], op: int, workers: int) -> bool:
    """Return whether a layer may share the stage of others before it."""
    chosen = (lowered.implementations[n] for n in (*found, op))
    kernels = [implementation.kernel for implementation in chosen if implementation is not None]
    if sum(kernel.num_tiles for kernel in kernels) > workers:
        return False
    if any(kernel.inputs != kernels[0].inputs for kernel in kernels):
        return False
    read = (lowered.graph.predecessors[later] for later in range(found[0] + 1, op + 1))
    return not any(set(found) & set(operators) for operators in read)


def _several(found: list[int]) -> Iterator[tuple[int, ...]]:
    if len(found) > 1:
        yield tuple(found)
