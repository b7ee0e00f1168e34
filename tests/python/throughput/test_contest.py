# SPDX-License-Identifier: Apache-2.0
"""Ways of making requests, in turns: who takes part, who is left out, and what is the best."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.cli import SHAPE, save_branches
from tvm_ios.throughput.contest import Entry, Figures, Result, contest
from tvm_ios.throughput.ways import ONNX_RUNTIME, OPENVINO, OURS, Way, ways_of

FORMS = {(2, 1), (2, 4), (1, 2)}
"""Threads of a call, and callers, on two cores."""


def test_all_cores_have_work() -> None:
    ways = ways_of(ONNX_RUNTIME, 2, [1, 8])
    assert {(way.threads, way.callers) for way in ways} == FORMS
    assert len(set(ways)) == len(ways) == 6
    assert all(way.threads * way.callers >= 4 for way in ways_of(OURS, 4, [1]))
    assert ways_of(OURS, 1, [1]) == [Way(OURS, 1, 1, 1), Way(OURS, 1, 2, 1)]
    assert [str(way) for way in ways_of(OPENVINO, 2, [3])] == ["throughput hint, batch 3"]


def _figures(rates: list[float], latency: float) -> Figures:
    return Figures(rates, [latency] * len(rates))


def test_of_ways_that_are_alike_the_quicker_answer_is_the_best() -> None:
    slow, quick, other = (Way(OURS, 2, 1, batch) for batch in (32, 8, 1))
    result = Result(
        {
            slow: _figures([100, 101, 300], 0.3),
            quick: _figures([99, 99, 99], 0.08),
            other: _figures([90, 90, 90], 0.01),
        }
    )
    assert result.best([OURS]) == quick
    assert result.best([OPENVINO]) is None


def test_ways_are_compared_within_rounds() -> None:
    first, second = Way(OURS, 2, 1, 1), Way(OPENVINO, 0, 0, 1)
    result = Result({first: _figures([10, 20, 40], 1), second: _figures([5, 10, 10], 1)})
    assert result.ratio(first, second) == 2


def test_a_system_that_fails_is_left_out(tmp_path: Path) -> None:
    save_branches(tmp_path / "m.onnx", batch="N")
    (tmp_path / "damaged.onnx").write_bytes(b"no model")
    random = np.random.default_rng(0)
    inputs = {
        batch: [random.standard_normal((batch, *SHAPE[1:])).astype("float32")] for batch in (1, 3)
    }
    single = [way for way in ways_of(ONNX_RUNTIME, 2, list(inputs)) if way.threads == 1]
    entries = [
        Entry(ONNX_RUNTIME, tmp_path / "m.onnx", single),
        Entry(OPENVINO, tmp_path / "damaged.onnx", ways_of(OPENVINO, 2, list(inputs))),
    ]
    result = contest(entries, inputs, tmp_path, rounds=2, seconds=0.01, limit=0)
    assert list(result.figures) == single
    assert all(len(figures.samples_per_s) == 2 for figures in result.figures.values())
    assert all(figures.rate > 0 and figures.latency > 0 for figures in result.figures.values())
    assert list(result.left_out) == [OPENVINO]
    assert result.left_out[OPENVINO]  # that it is not installed, or cannot read the file
    assert result.errors == {ONNX_RUNTIME: 0}


def test_samples_are_counted_not_calls(tmp_path: Path) -> None:
    """What a caller gets in a second is its batch divided by the time of a call."""
    save_branches(tmp_path / "m.onnx", batch="N")
    inputs = {8: [np.random.default_rng(0).standard_normal((8, *SHAPE[1:])).astype("float32")]}
    way = Way(ONNX_RUNTIME, 1, 1, 8)
    entries = [Entry(ONNX_RUNTIME, tmp_path / "m.onnx", [way])]
    figures = contest(entries, inputs, tmp_path, rounds=9, seconds=0.1, limit=0).figures[way]
    assert len(figures.samples_per_s) == 3  # the fewest, as the time is over
    assert figures.rate == pytest.approx(8 / figures.latency, rel=0.9)
