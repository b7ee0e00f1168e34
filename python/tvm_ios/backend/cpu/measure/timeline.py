# SPDX-License-Identifier: Apache-2.0
"""The timeline of a network that records when its workers compute what."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from ....schedule.timeline import Span, Timeline, Wait
from ..code.recorder import Record, Recorder


def timeline(
    launches: Sequence[tuple[Recorder, np.ndarray]], stages: Mapping[int, int]
) -> Timeline:
    """Return when the workers computed and waited, in seconds since the first call.

    Parameters
    ----------
    launches : sequence of Recorder and numpy.ndarray
        The launches of one run with what was recorded, int64 nanoseconds.
    stages : mapping of int to int
        The number of each stage in the schedule, by its ``id``.
    """
    start = min(int(timestamps.min()) for _, timestamps in launches)
    spans: list[Span] = []
    waits: list[Wait] = []
    for recorder, timestamps in launches:
        history = _History(recorder, stages)
        history.replay((timestamps - start) * 1e-9)
        spans += history.spans
        waits += history.waits
    return Timeline(tuple(spans), tuple(waits))


class _History:
    """What the workers of one launch did, from position to position.

    A worker waits from the end of one call to the beginning of the next one, for the call that
    ended last among those that it had to wait for in between.
    """

    def __init__(self, recorder: Recorder, stages: Mapping[int, int]) -> None:
        self._recorder, self._stages = recorder, stages
        self.spans: list[Span] = []
        self.waits: list[Wait] = []
        self._done: dict[int, list[tuple[int, Span]]] = defaultdict(list)  # by worker: positions
        self._causes: dict[int, list[Span]] = defaultdict(list)
        self._idle: dict[int, float] = {}

    def replay(self, timestamps: np.ndarray) -> None:
        """Go through the launch, of which ``timestamps`` has all records in seconds."""
        seconds = timestamps.reshape(-1, 2).tolist()
        workers, plan = range(self._recorder.workers), self._recorder.plan
        self._idle = dict.fromkeys(workers, min(begin for begin, _ in seconds))
        waits = defaultdict(list)
        for wait in plan.waits:
            waits[wait.position].append(wait)
        met = -1
        for record, (begin, end) in zip(self._recorder.records, seconds, strict=True):
            for position in range(met + 1, record.position + 1):
                if position in plan.barriers:
                    self._barrier(workers)
                for wait in waits[position]:
                    self._await(wait.worker, wait.other, wait.completed)
            met = record.position
            if not record.empty:
                self._add(record, begin, end)
        self._barrier(workers)
        for worker in workers:
            self._note(worker, max(span.end for span in self.spans))

    def _barrier(self, workers: Sequence[int]) -> None:
        """Note that all workers wait for what was called so far."""
        last = max(self.spans, key=lambda span: span.end)
        for worker in workers:
            self._causes[worker].append(last)

    def _await(self, worker: int, other: int, completed: int) -> None:
        """Note that a worker waits for what another one calls before position ``completed``."""
        number = bisect_left(self._done[other], completed, key=lambda entry: entry[0])
        if number:
            self._causes[worker].append(self._done[other][number - 1][1])

    def _add(self, record: Record, begin: float, end: float) -> None:
        computed = record.stage.implementations[record.call]
        span = Span(
            record.worker,
            self._stages[id(record.stage)],
            computed.operators,
            computed.kernel.name,
            record.phase,
            begin,
            end,
        )
        self._note(record.worker, begin)
        self._idle[record.worker] = end
        self._done[record.worker].append((record.position, span))
        self.spans.append(span)

    def _note(self, worker: int, until: float) -> None:
        """Note for what a worker has waited until now, if it did not come later than that."""
        cause = max(self._causes[worker], key=lambda span: span.end, default=None)
        since = self._idle[worker]
        if cause is not None and since < cause.end:
            self.waits.append(Wait(worker, cause, since, until))
        self._causes[worker].clear()
