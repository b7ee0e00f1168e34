# SPDX-License-Identifier: Apache-2.0
"""Timing of whole models on a GPU in turn: back to back, and one by one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np

from ....measure.model import rounds, runs_of_window
from .clock import WarmClock

_ALONE = 5  # runs of a round that are awaited one by one


class Contender(Protocol):
    """A model that is ready to run."""

    def timer(self, number: int) -> Callable[[], float]:
        """Return a function that runs the model ``number`` times and returns seconds per run."""

    def run_once(self) -> None:
        """Run the model, and wait for its result."""


@dataclass
class Timing:
    """The samples of a model, one per round, but several for ``latency``.

    Attributes
    ----------
    back_to_back : list of float
        Seconds per run of runs in direct succession, by the device's events: the inverse of the
        throughput.
    latency : list of float
        Seconds from the call to the result, by the host's clock, each run awaited.
    sm_mhz : list of int or None
        The clock of the multiprocessors after each round in MHz; None if it cannot be read.
    """

    back_to_back: list[float] = field(default_factory=list)
    latency: list[float] = field(default_factory=list)
    sm_mhz: list[int | None] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """The median of ``back_to_back``."""
        return float(np.median(self.back_to_back))

    def to_dict(self) -> dict[str, Any]:
        """Return medians, tenth and ninetieth percentiles, and all samples, in milliseconds."""
        return {
            "back_to_back_ms": _spread(self.back_to_back),
            "latency_ms": _spread(self.latency),
            "sm_mhz": self.sm_mhz,
        }


def take_timings(contenders: Mapping[str, Contender], clock: WarmClock) -> dict[str, Timing]:
    """Time all contenders in interleaved rounds, on a warm device."""
    timers = {}
    for name, contender in contenders.items():
        number, _ = clock.take(partial(runs_of_window, contender.timer(1)))
        timers[name] = contender.timer(number)
    timings = {name: Timing() for name in contenders}
    for name in rounds(list(contenders)):
        timing = timings[name]
        seconds, mhz = clock.take(timers[name])
        timing.back_to_back.append(seconds)
        timing.sm_mhz.append(mhz)
        timing.latency += [_latency(contenders[name]) for _ in range(_ALONE)]
    return timings


def _latency(contender: Contender) -> float:
    begin = time.perf_counter()
    contender.run_once()
    return time.perf_counter() - begin


def _spread(seconds: list[float]) -> dict[str, Any]:
    low, median, high = (1e3 * float(q) for q in np.quantile(seconds, [0.1, 0.5, 0.9]))
    return {
        "median": round(median, 6),
        "p10": round(low, 6),
        "p90": round(high, 6),
        "samples": [round(1e3 * s, 6) for s in seconds],
    }
