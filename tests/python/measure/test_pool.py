# SPDX-License-Identifier: Apache-2.0
"""The timeline of stages on a pool of one device that is no process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from tvm_ios import ScheduleError
from tvm_ios.measure.pool import LocalPool, trace
from tvm_ios.schedule.timeline import Span


class Device:
    """Runs nothing, and notes what it is asked for."""

    def __init__(self) -> None:
        self.compiled: list[str] = []
        self.traced: list[tuple[list[str], int]] = []

    def compile(self, kernels: Iterable[str]) -> None:
        self.compiled += kernels

    def trace(self, stages: Sequence[str], repeat: int) -> list[Span]:
        self.traced.append((list(stages), repeat))
        return [Span(i % 2, i, i, (i,), stage, 0, i, i + 1.0) for i, stage in enumerate(stages)]


def test_spans_have_the_numbers_of_the_schedule() -> None:
    """Stages without a kernel are none of those that run."""
    device = Device()
    spans = trace(LocalPool(device, device, 1), {1: "one", 4: "four"}, ["a", "b"], 7)
    assert spans == [Span(0, 1, 0, (0,), "one", 0, 0, 1.0), Span(1, 4, 1, (1,), "four", 0, 1, 2.0)]
    assert device.compiled == ["a", "b"]
    assert device.traced == [(["one", "four"], 7)]


def test_a_schedule_without_kernels_has_no_timeline() -> None:
    device = Device()
    with pytest.raises(ScheduleError, match="No stage of the schedule has a kernel to run"):
        trace(LocalPool(device, device, 1), {}, [], 1)
    assert device.traced == []
