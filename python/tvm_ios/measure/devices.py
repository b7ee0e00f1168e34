# SPDX-License-Identifier: Apache-2.0
"""What work on stages is given to, and the device in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from ..kernels.kernel import Kernel
from ..threads import with_workers
from .device import Device
from .libraries import KernelLibraries

T = TypeVar("T")
R = TypeVar("R")


class Devices(Protocol):
    """What work on stages is given to."""

    def compile(self, kernels: Iterable[Kernel]) -> None:
        """Compile kernels that work will need."""

    def each(
        self,
        items: Sequence[T],
        work: Callable[[Device, T], R],
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


class ThisProcess:
    """The device in this process, where a crash is the search's, too.

    Parameters
    ----------
    device : Device
    libraries : KernelLibraries
    workers : int
    """

    def __init__(self, device: Device, libraries: KernelLibraries, workers: int) -> None:
        self._device, self._libraries, self._workers = device, libraries, workers

    def compile(self, kernels: Iterable[Kernel]) -> None:
        self._libraries.compile(kernels)

    def each(
        self,
        items: Sequence[T],
        work: Callable[[Device, T], R],
        done: Callable[[T, R | None], None],
    ) -> None:
        def body() -> None:
            for item in items:
                done(item, work(self._device, item))

        with_workers(self._workers, body)

    def close(self) -> None:
        """There is nothing to give back."""
