# SPDX-License-Identifier: Apache-2.0
"""The timeline of a run: when each worker ran which kernel, and for what it waited."""

from __future__ import annotations

from dataclasses import dataclass


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
    operators : tuple of int
        What the kernel computes: one operator, or those that it replaces.
    kernel : str
        The display name.
    phase : int
        The phase of the kernel.
    begin, end : float
        Seconds since the start of the run.
    units : int
        The units of the worker's share that were claimed at once.
    stolen : bool
        Whether they were of another worker's share.
    """

    worker: int
    stage: int
    operators: tuple[int, ...]
    kernel: str
    phase: int
    begin: float
    end: float
    units: int = 1
    stolen: bool = False


@dataclass(frozen=True)
class Wait:
    """The interval in which a worker waits for another one.

    Attributes
    ----------
    worker : int
    cause : Span
        The kernel that ended last of those that it waited for.
    begin, end : float
        Seconds since the start of the run.
    """

    worker: int
    cause: Span
    begin: float
    end: float


@dataclass(frozen=True)
class Timeline:
    """A run of a network.

    Attributes
    ----------
    spans : tuple of Span
        When which kernel ran; those of a worker do not overlap, and are in order.
    waits : tuple of Wait
        When workers waited, if a device tells it.
    """

    spans: tuple[Span, ...]
    waits: tuple[Wait, ...] = ()

    @property
    def seconds(self) -> float:
        """The end of the last call, since the start of the run."""
        return max(span.end for span in self.spans)
