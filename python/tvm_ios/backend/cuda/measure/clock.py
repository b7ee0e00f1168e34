# SPDX-License-Identifier: Apache-2.0
"""Samples taken while a GPU's clock is at its level under load.

An idle GPU lowers its clock to a fifth, and needs some of the first work's time to raise it again.
A search compiles for seconds before it measures. Work is therefore repeated until the clock has
risen, and earlier samples are discarded.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TypeVar

from tvm_ios_env.nvml import GpuMonitor

T = TypeVar("T")

_WARM = 0.95  # share of the expected clock
_PATIENCE = 0.7  # seconds after which a clock that does not rise is taken as the device's
_FRESH = 0.02  # seconds for which the last reading is valid


@dataclass
class WarmClock:
    """A filter that accepts samples by the clock before and after them.

    Attributes
    ----------
    read : callable
        Returns the clock in MHz; None if it is unknown, in which case every sample is kept.
    expected : int or None
        The device's clock under load in MHz, initially its highest. If the device does not reach
        it, because its power or temperature is limited, the clock that it does reach.
    discarded : int
        Number of samples that were taken at a lower clock.
    now : callable
        Returns the time in seconds.
    """

    read: Callable[[], int | None]
    expected: int | None
    discarded: int = 0
    now: Callable[[], float] = field(default=time.monotonic, repr=False)
    _last: tuple[float, int | None] = (-1.0, None)

    def take(self, sample: Callable[[], T]) -> tuple[T, int | None]:
        """Return the result of ``sample`` on a warm device, and the clock after it in MHz.

        Parameters
        ----------
        sample : callable
            Runs work on the device and returns when it has finished; called until the clock has
            risen.
        """
        begin, highest = self.now(), 0
        while True:
            before = self._recent()
            result = sample()
            after = self._reading()
            if before is None or after is None or self.expected is None:
                return result, after
            highest = max(highest, after)
            if min(before, after) >= _WARM * max(self.expected, after):
                self.expected = max(self.expected, after)
                return result, after
            if self.now() - begin > _PATIENCE:
                self.expected = highest
                return result, after
            self.discarded += 1

    def _recent(self) -> int | None:
        """Return the clock, from the last reading if that is still valid."""
        when, clock = self._last
        return clock if self.now() - when < _FRESH else self._reading()

    def _reading(self) -> int | None:
        clock = self.read()
        self._last = self.now(), clock
        return clock


@cache
def warm_clock(device_id: int) -> WarmClock:
    """Return the clock of a CUDA device, one per process, as its findings hold for all users."""
    monitor = GpuMonitor(device_id)
    return WarmClock(monitor.sm_mhz, monitor.max_sm_mhz)
