# SPDX-License-Identifier: Apache-2.0
"""Samples that a GPU takes at the clock that work brings it to.

An idle GPU lowers its clock to a fifth, and takes some of the first work's time to raise it again;
a search compiles for seconds before it measures. So work is repeated until the clock is up, and
what was measured before is discarded.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TypeVar

from tvm_ios_env.nvml import GpuMonitor

T = TypeVar("T")

_WARM = 0.95  # of the clock that is expected
_PATIENCE = 0.7  # seconds after which a clock that does not rise is what the device has
_FRESH = 0.02  # seconds for which the last reading holds


@dataclass
class WarmClock:
    """Judges samples by the clock before and after them.

    Attributes
    ----------
    read : callable
        Return the clock in MHz; None where nobody knows, and then every sample is kept.
    expected : int or None
        The clock that is expected of the device under load, at first its highest. Where the device
        does not reach it, as its power or temperature is limited, what it reaches takes its place.
    discarded : int
        Samples that were taken at a lower clock.
    now : callable
        Seconds.
    """

    read: Callable[[], int | None]
    expected: int | None
    discarded: int = 0
    now: Callable[[], float] = field(default=time.monotonic, repr=False)
    _last: tuple[float, int | None] = (-1.0, None)

    def take(self, sample: Callable[[], T]) -> tuple[T, int | None]:
        """Return what ``sample`` returns on a warm device, and the clock after it in MHz.

        Parameters
        ----------
        sample : callable
            Has the device work, and returns when it has ended; called until the clock is up.
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
        """The clock, which is not read again that was read just now."""
        when, clock = self._last
        return clock if self.now() - when < _FRESH else self._reading()

    def _reading(self) -> int | None:
        clock = self.read()
        self._last = self.now(), clock
        return clock


@cache
def warm_clock(device_id: int) -> WarmClock:
    """The clock of a CUDA device; one a process, as what is known of it holds for all."""
    monitor = GpuMonitor(device_id)
    return WarmClock(monitor.sm_mhz, monitor.max_sm_mhz)
