# SPDX-License-Identifier: Apache-2.0
"""Networks on the CPU, on disjoint cores: compiled and searched side by side, timed one by one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from gpu_phases.process import Process
from gpu_phases.steps import Step
from tvm_ios_env.machine import spread_cores

# Seconds that a request may take.
_PREPARE, _SEARCH, _TIME, _TRACE = (
    ("prepare", 70.0), ("search", 120.0), ("time", 40.0), ("trace", 30.0),
)  # fmt: skip
_POLL = 0.05

Request = tuple[str, float]


class Phase(Protocol):
    """What cells need of whoever runs them."""

    @property
    def left(self) -> float:
        """Seconds until all must be kept."""

    def start(self, step: Step, cores: Sequence[int]) -> Process:
        """Start a step that answers requests."""

    def keep(
        self, step: Step, process: Process, *, cut: str | None, failure: str | None, full: bool
    ) -> None:
        """Keep what came of a step."""


class Cell:
    """A network's process.

    Parameters
    ----------
    step : Step
    process : Process
    """

    def __init__(self, step: Step, process: Process) -> None:
        self.step, self.process = step, process
        self._asked, self._cut, self._full = 0, "", False
        self._failure = ""

    def ask(self, request: Request) -> None:
        """Send a request, unless the cell has given up."""
        if not self._ended:
            self._asked += 1
            self.process.ask(request[0])

    def wait(self, request: Request, left: float) -> None:
        """Wait for the answer; give up if there is none in time."""
        name, most = request
        end = time.monotonic() + min(most, max(left, 0))
        while not self._ended and self.process.answers < self._asked:
            if self.process.status is not None:
                self._failure = f"{name}: its process has ended: {self.process.last_words()}"
            elif time.monotonic() > end:
                self._cut, self._full = f"{name} took too long", most <= left
                self.process.end()
            time.sleep(_POLL)
        if request is _PREPARE and not self._ended:  # nothing can follow, where it has failed
            self._failure = self.process.result()["requests"][name]["failure"] or ""

    def keep(self, phase: Phase) -> None:
        """Keep what was answered; a request that has failed is the step's failure."""
        requests = self.process.result().get("requests", {})
        failed = [
            f"{name}: {told['failure']}" for name, told in requests.items() if told["failure"]
        ]
        failure = self._failure or "; ".join(failed) or None
        cut = self._cut or None
        phase.keep(self.step, self.process, cut=cut, failure=failure, full=self._full)

    @property
    def _ended(self) -> bool:
        return bool(self._cut or self._failure)


def run(phase: Phase, steps: Sequence[Step], threads: int) -> list[Step]:
    """Run steps of one number of threads, as many at a time as there are cores.

    Returns
    -------
    list of Step
        Those that there was no time for.
    """
    pool = sorted(spread_cores(threads))
    sets = [pool[i : i + threads] for i in range(0, len(pool) - threads + 1, threads)] or [pool]
    waiting = list(steps)
    while waiting and phase.left >= waiting[0].least:
        batch, waiting = waiting[: len(sets)], waiting[len(sets) :]
        cells = []
        try:
            for step, cores in zip(batch, sets[: len(batch)], strict=True):
                cells.append(Cell(step, phase.start(step, cores)))
            _answer(phase, cells, searched=threads > 1)
            for cell in cells:
                cell.keep(phase)
        finally:
            for cell in cells:
                cell.process.end()
    return waiting


def _answer(phase: Phase, cells: Sequence[Cell], *, searched: bool) -> None:
    """Have all requests answered; what is known without a search is timed before it."""
    for request in [_PREPARE, _SEARCH] if searched else [_PREPARE]:
        for cell in cells:
            cell.ask(request)
        for cell in cells:
            cell.wait(request, phase.left)
        for cell in cells:
            cell.ask(_TIME)
            cell.wait(_TIME, phase.left)
    for cell in cells:
        cell.ask(_TRACE)
        cell.wait(_TRACE, phase.left)
