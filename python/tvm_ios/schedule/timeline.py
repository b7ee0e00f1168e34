# SPDX-License-Identifier: Apache-2.0
"""When each worker computes what."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """When a worker was in a kernel.

    Attributes
    ----------
    worker : int
        On a CUDA device it is a stream, counted in each stage from the one that it forks from.
    stage : int
        Among those that were run.
    operators : tuple of int
        What the kernel computes: one operator, or those that it replaces.
    kernel : str
        For people.
    phase : int
        Of the kernel, which may have several with a barrier between them.
    begin, end : float
        Seconds since the run began.
    """

    worker: int
    stage: int
    operators: tuple[int, ...]
    kernel: str
    phase: int
    begin: float
    end: float
