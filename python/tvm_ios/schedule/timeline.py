# SPDX-License-Identifier: Apache-2.0
"""The timeline of a run: when each worker ran which kernel, and for what it waited."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True)
class Span:
    """The interval in which a worker ran a kernel.

    Attributes
    ----------
    worker : int
        The worker. On a CUDA device it is a stream, numbered in each stage from the one that it
        forks from.
    stage : int
        The index among the stages that ran.
    level : int
        The number of synchronisations of all workers before it in the run.
    operators : tuple of int
        What the kernel computes: one operator, or those that it replaces.
    kernel : str
        The display name.
    phase : int
        The phase of the kernel; phases are separated by barriers.
    begin, end : float
        Seconds since the start of the run.
    """

    worker: int
    stage: int
    level: int
    operators: tuple[int, ...]
    kernel: str
    phase: int
    begin: float
    end: float


@dataclass(frozen=True)
class Wait:
    """The interval in which a worker waits for the others.

    Attributes
    ----------
    worker : int
    cause : Span
        The kernel that ended last before the workers went on.
    begin, end : float
        Seconds since the start of the run.
    """

    worker: int
    cause: Span
    begin: float
    end: float


def waits(spans: Sequence[Span], workers: int) -> Iterator[Wait]:
    """Yield when each worker waits, from the end of its last kernel before a synchronisation.

    It goes on with its first kernel after one. A worker without a kernel between two of them waits
    for both as one, and the second is the cause.

    Parameters
    ----------
    spans : sequence of Span
        A run.
    workers : int
        The number of workers, each of which runs one kernel at a time.
    """
    idle_since: dict[int, float] = defaultdict(float)
    cause = None
    ordered = sorted(spans, key=lambda span: (span.level, span.begin))
    for _, level in groupby(ordered, key=lambda span: span.level):
        own = list(level)
        if cause is not None:
            for worker in sorted({span.worker for span in own}):
                begin = min(span.begin for span in own if span.worker == worker)
                yield Wait(worker, cause, idle_since[worker], begin)
        for span in own:
            idle_since[span.worker] = max(idle_since[span.worker], span.end)
        cause = max(own, key=lambda span: span.end)
    if cause is not None:
        for worker in range(workers):
            if idle_since[worker] < cause.end:
                yield Wait(worker, cause, idle_since[worker], cause.end)
