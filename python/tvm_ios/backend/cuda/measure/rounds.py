# SPDX-License-Identifier: Apache-2.0
"""Timing of whole models on a GPU in turn: back to back, and one by one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial

from ....measure.timing.models import Contender, Timing, rounds, runs_of_window
from .clock import WarmClock

_ALONE = 5  # runs of a round that are awaited one by one


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
