# SPDX-License-Identifier: Apache-2.0
"""Networks without a search, run in the way that a user gets and in another one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.frontend.models import load_model
from tvm_ios.measure.timing.decision import decide
from tvm_ios.schedule import Schedule
from tvm_ios.schedule.speedup import Speedup
from tvm_ios.target import resolve


@dataclass(frozen=True)
class TwoWays:
    """One network.

    Attributes
    ----------
    usual : Schedule
        One operator a stage, as the user gets it without a search.
    other_ms, usual_ms : float
    speedup : Speedup or None
        Of the usual way over the other one; None if the machine was too busy.
    """

    usual: Schedule
    other_ms: float
    usual_ms: float
    speedup: Speedup | None


def time_two_ways(
    model: str, threads: int | None, other: Callable[[Schedule], Schedule]
) -> TwoWays:
    """Time a network as a user gets it and as ``other`` changes it, in interleaved rounds."""
    scheduler = Scheduler.prepare(load_model(model), resolve("llvm", threads=threads))
    usual = scheduler.unsearched()
    variants = scheduler.compile({"other": other(usual), "usual": usual})
    decision = variants.time(lambda timers: decide(timers, "other", ["usual"]))
    ms = {name: 1e3 * seconds for name, seconds in decision.seconds.items()}
    return TwoWays(usual, ms["other"], ms["usual"], decision.speedup)
