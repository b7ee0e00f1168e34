# SPDX-License-Identifier: Apache-2.0
"""What records of made-up launches mean: who waits, for what, and for how long."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from tvm_ios.backend.cpu.code.launch_tables import launch_tables
from tvm_ios.backend.cpu.code.recorder import Record
from tvm_ios.backend.cpu.code.units import Unit
from tvm_ios.backend.cpu.code.waits import Wait, WaitPlan
from tvm_ios.backend.cpu.measure.timeline import timeline

START = 10**18  # nanoseconds since a machine started long ago

# (position, column, begin, end) and maybe the thread, in seconds; without an end there are no tiles
Calls = list[tuple]


def run(calls: Calls, plan: WaitPlan, workers: int = 2) -> tuple[object, np.ndarray, object]:
    """A launch that recorded these calls; the kernel of a position is named after it."""
    size = 1 + calls[-1][0]
    kernels = [SimpleNamespace(name=f"kernel {n}") for n in range(size)]
    implementations = [
        SimpleNamespace(operators=(n,), kernel=kernel) for n, kernel in enumerate(kernels)
    ]
    stage = SimpleNamespace(implementations=implementations)
    units = [[() for _ in range(workers)] for _ in range(size)]
    for number, column, _, end, *_ in calls:
        if end is not None:
            units[number][column] = (Unit(number, 0, 0, 1, 0),)
    tables = launch_tables([SimpleNamespace(share=None)] * size, plan, units)
    parts = {(part.position, part.column): part for part in tables.parts}
    records = [
        Record(
            parts[number, column],
            *(stage, number, 0, thread[0] if thread else column, 1),
            *(START + round(1e9 * time) for time in (begin, end)),
        )
        for number, column, begin, end, *thread in calls
        if end is not None
    ]
    records.sort(key=lambda record: record.begin)
    recorder = SimpleNamespace(records=lambda _: records, workers=workers, tables=tables)
    return recorder, np.zeros(0, "int64"), stage


def waits(calls: Calls, plan: WaitPlan, workers: int = 2) -> list[tuple]:
    """Worker, position that was waited for and its worker, begin and end."""
    recorder, noted, stage = run(calls, plan, workers)
    found = timeline([(recorder, noted)], {id(stage): 0}).waits
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


def test_who_takes_the_units_of_another_one_waits_for_what_those_need() -> None:
    """Thread 1 computes the second call of column 0, which comes after its first one."""
    calls = [(0, 0, 0.0, 2.0), (0, 1, 0.0, 1.0), (1, 0, 2.5, 3.0, 1)]
    plan = WaitPlan(frozenset(), ())
    assert waits(calls, plan) == [(1, 0, 0, 1.0, 2.5), (0, 1, 1, 2.0, 3.0)]
    recorder, noted, stage = run(calls, plan)
    spans = timeline([(recorder, noted)], {id(stage): 0}).spans
    assert [(span.worker, span.stolen) for span in spans] == [(0, False), (1, False), (1, True)]


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
