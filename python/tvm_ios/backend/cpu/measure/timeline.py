# SPDX-License-Identifier: Apache-2.0
"""The timeline of a network that records when its workers compute what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ....schedule.timeline import Span, Timeline, Wait
from ..code.launch_tables import Part
from ..code.recorder import Record, Recorder


def timeline(
    launches: Sequence[tuple[Recorder, np.ndarray]], stages: Mapping[int, int]
) -> Timeline:
    """Return when the workers computed and waited, in seconds since the first call.

    Parameters
    ----------
    launches : sequence of Recorder and numpy.ndarray
        The launches of one run with what was noted, int64.
    stages : mapping of int to int
        The number of each stage in the schedule, by its ``id``.
    """
    start = min(r.begin for recorder, noted in launches for r in recorder.records(noted))
    spans: list[Span] = []
    waits: list[Wait] = []
    for recorder, noted in launches:
        history = _History(recorder, stages)
        history.replay(noted, start)
        spans += history.spans
        waits += history.waits
    return Timeline(tuple(spans), tuple(waits))


class _History:
    """What the threads of one launch did, from call to call.

    A thread waits from the end of one call to the beginning of the next one, for the call that
    ended last among those that the next one had to wait for.
    """

    def __init__(self, recorder: Recorder, stages: Mapping[int, int]) -> None:
        self._recorder, self._stages = recorder, stages
        self.spans: list[Span] = []
        self.waits: list[Wait] = []
        self._last: dict[tuple[int, int], Span] = {}  # of a column's part: the call that ended last
        self._idle: dict[int, float] = {}
        columns = recorder.tables.columns
        self._indices = {
            (part.position, part.column): index
            for column in columns
            for index, part in enumerate(column)
        }

    def replay(self, noted: np.ndarray, start: int) -> None:
        """Go through the launch, of which ``noted`` has the records, from nanosecond ``start``."""
        records = self._recorder.records(noted)
        begin = (records[0].begin - start) * 1e-9
        self._idle = dict.fromkeys(range(self._recorder.workers), begin)
        for record in records:
            self._add(record, start)
        last = max(self.spans, key=lambda span: span.end)
        for worker in self._idle:
            self._note(worker, last, last.end)

    def _add(self, record: Record, start: int) -> None:
        computed, part = record.stage.implementations[record.call], record.part
        span = Span(
            record.thread,
            self._stages[id(record.stage)],
            computed.operators,
            computed.kernel.name,
            record.phase,
            (record.begin - start) * 1e-9,
            (record.end - start) * 1e-9,
            record.units,
            record.thread != part.column,
        )
        cause = max(self._before(part), key=lambda other: other.end, default=None)
        self._note(record.thread, cause, span.begin)
        self._idle[record.thread] = span.end
        own = part.column, self._indices[part.position, part.column]
        self._last[own] = max(self._last.get(own, span), span, key=lambda other: other.end)
        self.spans.append(span)

    def _before(self, part: Part) -> Iterator[Span]:
        """Yield the last calls for the parts that a part waits for."""
        needed = [(part.column, self._indices[part.position, part.column]), *part.waits]
        if part.barrier >= 0:
            needed += enumerate(self._recorder.tables.barriers[part.barrier])
        for column, completed in needed:
            if (column, completed - 1) in self._last:
                yield self._last[column, completed - 1]

    def _note(self, worker: int, cause: Span | None, until: float) -> None:
        """Note for what a worker has waited until now, if it did not come later than that."""
        since = self._idle[worker]
        if cause is not None and since < cause.end:
            self.waits.append(Wait(worker, cause, since, until))
