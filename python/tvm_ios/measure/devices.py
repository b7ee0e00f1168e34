# SPDX-License-Identifier: Apache-2.0
"""What work on stages is given to, and the device in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

from ..backend.shared.kernel import K
from ..schedule.timeline import Span
from ..support.errors import ScheduleError
from ..support.threads import with_workers
from .device import Device, K_contra, KernelBuilder, S_contra

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")


class Devices(Protocol[K_contra, S_contra]):
    """What work on stages is given to."""

    def compile(self, kernels: Iterable[K_contra]) -> None:
        """Compile kernels that work will need."""

    def each(
        self,
        items: Sequence[T],
        work: Callable[[Device[K_contra, S_contra], T], R],
        done: Callable[[T, R | None], None],
    ) -> None:
        """Do ``work(device, item)`` for every item.

        Parameters
        ----------
        items : sequence
        work : callable
        done : callable
            Called with every item and the result, on this thread, as they come. The result is None
            where the work crashed or took too long.
        """

    def close(self) -> None:
        """Give the devices back; nothing is measured any more."""


class ThisProcess(Generic[K, S]):
    """The device in this process, where a crash is the search's, too.

    Parameters
    ----------
    device : Device
    libraries : KernelBuilder
    workers : int
    """

    def __init__(self, device: Device[K, S], libraries: KernelBuilder[K], workers: int) -> None:
        self._device, self._libraries, self._workers = device, libraries, workers

    def compile(self, kernels: Iterable[K]) -> None:
        self._libraries.compile(kernels)

    def each(
        self,
        items: Sequence[T],
        work: Callable[[Device[K, S], T], R],
        done: Callable[[T, R | None], None],
    ) -> None:
        def body() -> None:
            for item in items:
                done(item, work(self._device, item))

        with_workers(self._workers, body)

    def close(self) -> None:
        """There is nothing to give back."""


AnyDevices = Devices[Any, Any]
"""Those of any back end."""


def trace(
    devices: Devices[K, S], stages: Mapping[int, S], kernels: Sequence[K], repeat: int
) -> list[Span]:
    """When each worker computes what of these stages, by their numbers.

    Parameters
    ----------
    devices : Devices
    stages : mapping of int to stages
        Those that have kernels; all of them run as they do in a compiled network.
    kernels : sequence of Kernel
        What they run.
    repeat : int
        Runs, of which the fastest counts.

    Raises
    ------
    ScheduleError
        When there is nothing to run.
    """
    if not kernels:
        raise ScheduleError("No stage of the schedule has a kernel to run; TVM lowers it all.")
    devices.compile(kernels)
    numbers: list[int] = list(stages)
    spans: list[Span] = []
    devices.each(
        [list(stages.values())],
        lambda device, run: device.trace(run, repeat),
        lambda _, found: spans.extend(found or []),
    )
    return [replace(span, stage=numbers[span.stage]) for span in spans]
