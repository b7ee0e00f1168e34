# SPDX-License-Identifier: Apache-2.0
"""What workers do in a run: in sums over a made-up timeline, and in a real one."""

from __future__ import annotations

import json
import math

import pytest

from support.cli import Compiled
from tvm_ios.cli.main import main
from tvm_ios.measure.profile import profile
from tvm_ios.schedule import Schedule
from tvm_ios.schedule.timeline import Span, Timeline, Wait

SPANS = (
    Span(0, 0, (0,), "conv", 0, 0.0, 4.0),
    Span(1, 0, (0,), "conv", 0, 0.0, 2.0),
    Span(0, 2, (1, 2), "merged", 0, 4.0, 7.0),
    Span(1, 2, (1, 2), "merged", 0, 4.0, 8.0),
)
RUN = Timeline(SPANS, (Wait(1, SPANS[0], 2.0, 4.0), Wait(0, SPANS[3], 7.0, 8.0)))
BYTES = {(0,): 100, (1, 2): 50}


def test_sums_of_a_timeline() -> None:
    whole = profile(RUN, {(0,): 5.0, (1, 2): 3.5}, BYTES, 2)
    first, last = whole.stages[0], whole.stages[2]
    assert (first.seconds, first.busy, first.waiting, first.moved_bytes) == (4.0, 6.0, 2.0, 100)
    assert (last.seconds, last.busy, last.waiting, last.moved_bytes) == (4.0, 7.0, 1.0, 50)
    assert (first.busy_over_alone, last.busy_over_alone) == (1.2, 2.0)
    assert whole.seconds == 8.0
    assert whole.busy_over_alone == 13.0 / 8.5
    assert whole.waiting_share == 3.0 / 16.0


def test_a_kernel_that_could_not_be_timed() -> None:
    whole = profile(RUN, {(0,): 5.0}, BYTES, 2)
    assert whole.stages[0].busy_over_alone == 1.2
    assert math.isnan(whole.stages[2].busy_over_alone)
    assert math.isnan(whole.busy_over_alone)
    assert whole.waiting_share == 3.0 / 16.0


def test_show_prints_a_profile(compiled: Compiled, capsys: pytest.CaptureFixture[str]) -> None:
    path, model = compiled / "s.json", str(compiled / "model.onnx")
    schedule = Schedule.load(path)
    assert main(["show", str(path), "--model", model, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"stages", "operators"} <= set(found)
    assert 0.3 < found["busy_over_alone"] < 30.0
    assert 0.0 <= found["waiting_share"] < 1.0
    ran = {stage["stage"]: stage for stage in found["profile"]}
    assert set(ran) <= set(range(len(schedule.stages)))
    for stage in ran.values():
        assert stage["busy_ms"] <= schedule.workers * stage["ms"] * (1 + 1e-6)
        assert stage["alone_ms"] > 0
        assert stage["moved_bytes"] > 0
    assert main(["show", str(path), "--model", model]) == 0
    text = capsys.readouterr().out
    assert "workers wait" in text
    for column in ("work", "waiting", "slow-down", "MB moved"):
        assert column in text
