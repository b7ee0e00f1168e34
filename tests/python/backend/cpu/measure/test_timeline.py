# SPDX-License-Identifier: Apache-2.0
"""What records of made-up launches mean: who waits, for what, and for how long."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from tvm_ios.backend.cpu.code.recorder import Record
from tvm_ios.backend.cpu.code.waits import Wait, WaitPlan
from tvm_ios.backend.cpu.measure.timeline import timeline

START = 10**18  # nanoseconds since a machine started long ago

# (position, worker, begin, end), in seconds; a call without an end has no tiles
Calls = list[tuple[int, int, float, float | None]]


def run(calls: Calls, plan: WaitPlan, workers: int = 2) -> tuple[object, np.ndarray, object]:
    """A launch that recorded these calls; the kernel of a position is named after it."""
    kernels = [SimpleNamespace(name=f"kernel {n}") for n in range(1 + calls[-1][0])]
    implementations = [
        SimpleNamespace(operators=(n,), kernel=kernel) for n, kernel in enumerate(kernels)
    ]
    stage = SimpleNamespace(implementations=implementations)
    records = [Record(n, worker, stage, n, 0, end is None) for n, worker, _, end in calls]
    timestamps = [(begin, begin if end is None else end) for *_, begin, end in calls]
    recorder = SimpleNamespace(records=records, workers=workers, plan=plan)
    return recorder, START + (1e9 * np.array(timestamps)).astype("int64").ravel(), stage


def waits(calls: Calls, plan: WaitPlan, workers: int = 2) -> list[tuple]:
    """Worker, position that was waited for and its worker, begin and end."""
    recorder, timestamps, stage = run(calls, plan, workers)
    found = timeline([(recorder, timestamps)], {id(stage): 0}).waits
    return [
        (w.worker, w.cause.operators[0], w.cause.worker, round(w.begin, 6), round(w.end, 6))
        for w in found
    ]


def test_at_a_barrier_workers_wait_for_the_last_one() -> None:
    calls = [(0, 0, 0.0, 5.0), (0, 1, 0.0, 3.0), (1, 0, 5.0, 7.0), (1, 1, 5.5, 9.0)]
    assert waits(calls, WaitPlan(frozenset({1}), ())) == [(1, 0, 0, 3.0, 5.5), (0, 1, 1, 7.0, 9.0)]


def test_without_one_they_wait_for_whom_they_must() -> None:
    """Worker 1 for the second call of worker 0, and worker 0 for nobody."""
    calls = [
        *((0, 0, 0.0, 2.0), (0, 1, 0.0, 1.0)),
        *((1, 0, 2.0, 4.0), (1, 1, 1.0, 2.0)),
        *((2, 0, 4.0, 6.0), (2, 1, 4.5, 6.0)),
    ]
    plan = WaitPlan(frozenset(), (Wait(2, 1, 0, 2), Wait(2, 0, 1, 1)))
    assert waits(calls, plan) == [(1, 1, 0, 2.0, 4.5)]


def test_what_another_one_did_in_the_meantime_was_not_waited_for() -> None:
    calls = [
        *((0, 0, 0.0, 2.0), (0, 1, 0.0, 1.0)),
        *((1, 0, 2.0, 4.0), (1, 1, 1.0, 1.5)),
        *((2, 0, 4.0, 5.0), (2, 1, 2.5, 5.0)),
    ]
    assert waits(calls, WaitPlan(frozenset(), (Wait(2, 1, 0, 1),))) == [(1, 0, 0, 1.5, 2.5)]


def test_a_worker_without_tiles_waits_through() -> None:
    """The third one waits for what it would read, until it has something to compute."""
    calls = [
        *((0, 0, 0.0, 2.0), (0, 1, 0.0, 1.0), (0, 2, 0.0, 4.0)),
        *((1, 0, 4.0, 6.0), (1, 1, 4.0, 5.0), (1, 2, 4.0, None)),
        *((2, 0, 6.0, 8.0), (2, 1, 6.0, 8.0), (2, 2, 6.5, 7.0)),
    ]
    plan = WaitPlan(frozenset({1}), (Wait(2, 2, 0, 2), Wait(2, 1, 0, 2)))
    assert waits(calls, plan, 3) == [
        *((0, 0, 2, 2.0, 4.0), (1, 0, 2, 1.0, 4.0)),
        *((1, 1, 0, 5.0, 6.0), (2, 1, 0, 4.0, 6.5)),
        (2, 2, 0, 7.0, 8.0),
    ]


def test_one_that_never_has_tiles_waits_for_the_end() -> None:
    calls = [(0, 0, 1.0, 3.0), (0, 1, 1.0, None)]
    assert waits(calls, WaitPlan(frozenset(), ())) == [(1, 0, 0, 0.0, 2.0)]


def test_who_comes_last_has_not_waited() -> None:
    """What lies between its calls is the synchronisation itself."""
    calls = [(0, 0, 0.0, 2.0), (0, 1, 0.0, 3.0), (1, 0, 3.1, 4.0), (1, 1, 3.1, 4.0)]
    assert waits(calls, WaitPlan(frozenset({1}), ())) == [(0, 0, 1, 2.0, 3.1)]


def test_launches_follow_each_other() -> None:
    """Times are since the first call of all, to the nanosecond."""
    none = WaitPlan(frozenset(), ())
    one, other = run([(0, 0, 2.0, 3.0)], none), run([(0, 0, 4.0, 4.000000001)], none)
    numbers = {id(one[2]): 3, id(other[2]): 7}
    spans = timeline([one[:2], other[:2]], numbers).spans
    assert [(span.stage, span.begin) for span in spans] == [(3, 0.0), (7, 2.0)]
    assert round(1e9 * (spans[1].end - spans[1].begin)) == 1
