# SPDX-License-Identifier: Apache-2.0
"""The runner pool protocol, and the pool that runs in this process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

from ..backend.shared.kernel import K
from ..schedule.timeline import Span
from ..support.errors import ScheduleError
from ..support.threads import with_num_threads
from .session import KernelFault
from .stage_runner import K_contra, KernelBuilder, S_contra, StageRunner

_logger = logging.getLogger(__name__)

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")


class RunnerPool(Protocol[K_contra, S_contra]):
    """A pool of runners."""

    def compile(self, kernels: Iterable[K_contra]) -> None:
        """Compile the kernels that later jobs need."""

    def each(
        self,
        items: Sequence[T],
        work: Callable[[StageRunner[K_contra, S_contra], T], R],
        done: Callable[[T, R | None], None],
    ) -> None:
        """Call ``work(device, item)`` for every item.

        Parameters
        ----------
        items : sequence
            The jobs.
        work : callable
            The function that does a job on a runner.
        done : callable
            Called on this thread with each item and its result, in order of completion. The result
            is None if the job crashed, took too long or computed something wrong.
        """

    def close(self) -> None:
        """Release the runners; the pool cannot be used afterwards."""


class LocalPool(Generic[K, S]):
    """The runner in this process, where a crash ends the search.

    Parameters
    ----------
    device : StageRunner
        The runner.
    builder : KernelBuilder
        The kernel builder.
    workers : int
        The number of threads.
    """

    def __init__(self, device: StageRunner[K, S], builder: KernelBuilder[K], workers: int) -> None:
        self._device, self._builder, self._workers = device, builder, workers

    def compile(self, kernels: Iterable[K]) -> None:
        self._builder.compile(kernels)

    def each(
        self,
        items: Sequence[T],
        work: Callable[[StageRunner[K, S], T], R],
        done: Callable[[T, R | None], None],
    ) -> None:
        def body() -> None:
            for item in items:
                result = None
                try:
                    result = work(self._device, item)
                except KernelFault as error:
                    _logger.warning("%s.", error)
                done(item, result)

        with_num_threads(self._workers, body)

    def close(self) -> None:
        """Do nothing: this pool holds no resources."""


AnyRunnerPool = RunnerPool[Any, Any]
"""The runner pool of any back end."""


def trace(
    pool: RunnerPool[K, S], stages: Mapping[int, S], kernels: Sequence[K], repeat: int
) -> list[Span]:
    """Return when each worker runs which kernel of these stages.

    Parameters
    ----------
    pool : RunnerPool
        The runner pool.
    stages : mapping of int to stages
        The stages that have kernels, by their number in the schedule. They run as in a compiled
        network.
    kernels : sequence of Kernel
        The kernels of these stages.
    repeat : int
        The number of runs, of which the fastest is returned.

    Raises
    ------
    ScheduleError
        If no stage has a kernel.
    """
    if not kernels:
        raise ScheduleError("No stage of the schedule has a kernel to run; TVM lowers it all.")
    pool.compile(kernels)
    numbers: list[int] = list(stages)
    spans: list[Span] = []
    pool.each(
        [list(stages.values())],
        lambda device, run: device.trace(run, repeat),
        lambda _, found: spans.extend(found or []),
    )
    return [replace(span, stage=numbers[span.stage]) for span in spans]
