# SPDX-License-Identifier: Apache-2.0
"""One model that others have made: compiled, checked, and timed beside others in turns."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from peer.contender import CONTENDERS, Contender
from peer.contest import deviation
from peer.process import Assignment, ContenderError, Worker, measure_tool
from public.record import OURS, WAYS, Outcome
from tvm_ios.support.caches import OBJECTS


@dataclass(frozen=True)
class Plan:
    """How models are tried.

    Attributes
    ----------
    peers : sequence of str
    threads, rounds : int
    window : float
        Seconds of a contender's turn.
    say : callable
        Takes what is being done.
    ways : sequence of str
        The forms in which models are compiled by ours.
    """

    peers: Sequence[str]
    threads: int
    rounds: int
    window: float
    say: Callable[[str], None]
    ways: Sequence[str] = WAYS


class Trial(ABC):
    """The contenders' processes on one model; files go to ``directory``."""

    def __init__(self, outcome: Outcome, plan: Plan, directory: Path) -> None:
        self.plan, self.directory, self.outcome = plan, directory, outcome
        self._workers: dict[str, Worker] = {}

    @property
    def tolerance(self) -> float:
        """The largest error of a right answer, relative to the largest value."""
        return 1e-4

    @abstractmethod
    def prepare(self) -> None:
        """Write the model, ``inputs.npz``, and ``expected.npz`` with the right answers.

        Raises
        ------
        ContenderError
            When nothing can be found out.
        """

    @abstractmethod
    def arguments(self, way: str) -> list[str]:
        """What ``tvm-ios compile`` takes: the model in a form, and options.

        Raises
        ------
        ContenderError
            When the model has no such form.
        """

    @abstractmethod
    def peer(self, name: str) -> Worker:
        """Start another contender.

        Raises
        ------
        ContenderError
        """

    def run(self) -> Outcome:
        """Find out whether it comes in, how exact it is and how fast."""
        try:
            self.prepare()
            for way in self.plan.ways:
                name = OURS[WAYS.index(way)]
                self._admit(name, lambda way=way, name=name: self._own(way, name))
            for name in self.plan.peers:
                self._admit(name, lambda name=name: self._timed_peer(name))
            self._take_turns()
        except ContenderError as error:
            self.outcome.failure = str(error)
        finally:
            for worker in self._workers.values():
                worker.close()
        return self.outcome

    def start(
        self, name: str, contender: Contender, path: Path, inputs: str = "inputs.npz"
    ) -> Worker:
        """Start a contender; its outputs go to ``NAME.npz``."""
        files = self.directory / inputs, self.directory / f"{name}.npz"
        assignment = Assignment(path, *files, self.plan.threads, self.plan.window)
        return Worker(contender, assignment, self.directory / f"{name}.stderr")

    def error_of(self, name: str) -> float:
        """Return the largest error of what a contender has computed, see :func:`deviation`."""
        return deviation(*(_arrays(self.directory / f"{n}.npz") for n in (name, "expected")))

    def _admit(self, name: str, start: Callable[[], Worker]) -> None:
        """Start a contender and check what it computes."""
        run = self.outcome.entry(name)
        self.plan.say(f"starting {name}")
        try:
            worker = start()
            run.error = self.error_of(name)
            if not run.error <= self.tolerance:  # NaN is no agreement
                worker.close()
                raise ContenderError(f"wrong by {run.error:.1e} of the largest output")
            self._workers[name] = worker
        except ContenderError as error:
            run.failure = str(error).replace(f"{self.directory}/", "")

    def _own(self, way: str, name: str) -> Worker:
        library, run = self.directory / f"{name}.so", self.outcome.entry(name)
        run.compile_s, run.compile_mb = self._compile(way, library)
        if way == WAYS[0]:  # pages have compile times of ONNX files
            run.again_s, _ = self._compile(way, library)
        return self.start(name, CONTENDERS["sequential"], library)

    def _compile(self, way: str, library: Path) -> tuple[float, float]:
        """Seconds and megabytes of the command; the caches are empty the first time."""
        database = self.directory / f"{way}.sqlite3"
        command = ["tvm_ios", "compile", *self.arguments(way), "-o", str(library), "--no-search"]
        begin = time.perf_counter()
        _, peak = measure_tool(
            [*command, "--threads", str(self.plan.threads), "--database", str(database)],
            self.directory / "compile.log",
            environment={OBJECTS: str(self.directory / f"objects_{way}")},
        )
        return time.perf_counter() - begin, peak / 1e6

    def _timed_peer(self, name: str) -> Worker:
        worker = self.peer(name)
        run = self.outcome.entry(name)
        if run.compile_s is None:
            run.compile_s = worker.ready["process_s"]
        return worker

    def _take_turns(self) -> None:
        """All run once a round, in an order that is drawn anew each time."""
        order = random.Random(0)
        for number in range(self.plan.rounds):
            self.plan.say(f"round {number + 1} of {self.plan.rounds}")
            for name in order.sample(list(self._workers), len(self._workers)):
                run = self.outcome.entry(name)
                try:
                    turn = self._workers[name].window()
                except ContenderError as error:
                    run.failure = str(error)
                    self._workers.pop(name).close()
                    continue
                run.rounds_ms.append(1e3 * turn["median_s"])
                run.peak_mb = turn["peak_bytes"] / 1e6


def _arrays(path: Path) -> list[np.ndarray]:
    with np.load(path) as file:
        return [file[key] for key in file.files]
