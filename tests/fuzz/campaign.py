# SPDX-License-Identifier: Apache-2.0
"""Trials of one seed after the other, on several processes, until the time is over."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from .outcome import FOREIGN, REFUSED, Outcome, Reduction
from .processes import Process

TIMEOUT = 120.0  # seconds for a network; on a busy machine eight threads may wait long
COMMAND = "PYTHONPATH=tests .venv/bin/python -m fuzz"
_REPORT = 15.0  # seconds between two lines of progress


@dataclass
class Tally:
    """What came of the trials so far."""

    statuses: Counter[str] = field(default_factory=Counter)
    operators: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    others: dict[str, list[int]] = field(default_factory=dict)
    findings: dict[str, list[int]] = field(default_factory=dict)

    @property
    def networks(self) -> int:
        return self.statuses.total()

    def add(self, outcome: Outcome) -> None:
        self.statuses[outcome.status] += 1
        if outcome.status != REFUSED:
            self.operators.update(outcome.operators)
            self.kinds[outcome.kind] += 1
        if outcome.found:
            self.findings.setdefault(outcome.symptom, []).append(outcome.seed)
        elif outcome.status in (REFUSED, FOREIGN):
            self.others.setdefault(outcome.symptom, []).append(outcome.seed)


class Campaign:
    """Trials of the seeds ``first``, ``first + 1``, and so on.

    Parameters
    ----------
    first : int
    seconds : float
    jobs : int
        Processes.
    networks : int, optional
        End after so many.
    reduction : Reduction, optional
        What is chosen of all of them.
    """

    def __init__(
        self,
        first: int,
        seconds: float,
        jobs: int,
        networks: int | None = None,
        reduction: Reduction | None = None,
    ) -> None:
        self._seeds = iter(range(first, first + networks) if networks else itertools.count(first))
        self._begin = time.monotonic()
        self._end, self._jobs = self._begin + seconds, jobs
        self._reduction = reduction or Reduction()
        self._lock = threading.Lock()
        self._failure: Exception | None = None
        self.tally = Tally()

    def run(self) -> Tally:
        """Run the trials; findings are printed as they come."""
        threads = [threading.Thread(target=self._work) for _ in range(self._jobs)]
        for thread in threads:
            thread.start()
        try:
            last = self._begin
            while any(thread.is_alive() for thread in threads):
                time.sleep(0.2)
                if time.monotonic() - last > _REPORT:
                    last = time.monotonic()
                    self._tell(self.progress)
        except KeyboardInterrupt:
            self._end = 0.0
        for thread in threads:
            thread.join()
        if self._failure is not None:
            raise self._failure
        return self.tally

    @property
    def progress(self) -> str:
        """How many there were, and how fast, in a line."""
        seconds, networks = time.monotonic() - self._begin, self.tally.networks
        counts = ", ".join(f"{n} {status}" for status, n in self.tally.statuses.most_common())
        return f"{seconds:6.0f} s  {networks} networks, {networks / seconds:.2f} a second: {counts}"

    def _work(self) -> None:
        process = Process(TIMEOUT)
        try:
            while time.monotonic() < self._end and self._failure is None:
                with self._lock:
                    seed = next(self._seeds, None)
                if seed is None:
                    return
                outcome = process.run(seed, self._reduction)
                with self._lock:
                    self.tally.add(outcome)
                if outcome.found:
                    self._tell(finding_text(outcome, self._reduction))
        except Exception as error:  # which the main thread raises
            self._failure = error
        finally:
            process.close()

    def _tell(self, text: str) -> None:
        with self._lock:
            print(text, flush=True)


def finding_text(outcome: Outcome, reduction: Reduction) -> str:
    """A finding, and how to see it again."""
    lines = [f"seed {outcome.seed} {outcome.status}: {outcome.choices}"]
    lines += [f"    {line}" for line in outcome.detail.splitlines()[-8:]]
    lines.append(f"    to see it again: {COMMAND} replay {outcome.seed}{reduction.arguments}")
    return "\n".join(lines)


def summary(tally: Tally, known: list[str]) -> str:
    """What was met, what was not, and what was found.

    Parameters
    ----------
    tally : Tally
    known : list of str
        All operators that there are.
    """
    counts = ", ".join(f"{name} {n}" for name, n in tally.operators.most_common())
    kinds = ", ".join(f"{kind} {n}" for kind, n in sorted(tally.kinds.items()))
    missed = [name for name in known if name not in tally.operators]
    lines = [
        f"{tally.networks} networks of {tally.operators.total()} operators",
        f"kinds: {kinds}",
        f"operators: {counts}",
        f"operators not met: {', '.join(missed) or 'none'}",
    ]
    for title, groups in (("not ours", tally.others), ("findings", tally.findings)):
        lines.append(f"{title}: {sum(map(len, groups.values()))}")
        ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
        lines += [f"  {len(s):4d} x {symptom[:200]} (seed {s[0]})" for symptom, s in ordered]
    return "\n".join(lines)
