# SPDX-License-Identifier: Apache-2.0
"""One public model: exported, compiled both ways, checked, and timed beside others in turns."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from peer.contender import CONTENDERS, Contender
from peer.contest import deviation
from peer.process import Assignment, ContenderError, Worker, run_tool
from public.catalogue import PublicModel
from public.record import OURS, WAYS, Outcome, Run
from tvm_ios.support.caches import OBJECTS

_TOLERANCE = 1e-4  # relative to the largest output
_EXPORTED = Contender(
    "torch.compile",
    "peer.torch_exported",
    ("torch",),
    "inductor in its default mode with frozen weights, of the exported program",
)


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


class Trial:
    """The contenders' processes on one model; files go to ``directory``."""

    def __init__(self, model: PublicModel, plan: Plan, directory: Path) -> None:
        self._plan, self._directory, self._model = plan, directory, model
        self._outcome = Outcome(model.name, model.family, model.source)
        self._workers: dict[str, Worker] = {}

    def run(self) -> Outcome:
        """Find out whether it comes in, how exact it is and how fast."""
        try:
            missing = self._export()
            for way in self._plan.ways:
                name = OURS[WAYS.index(way)]
                self._admit(name, lambda way=way, name=name: self._own(way, name, missing[way]))
            for name in self._plan.peers:
                self._admit(name, lambda name=name: self._peer(name, missing))
            self._take_turns()
        except ContenderError as error:
            self._outcome.failure = str(error)
        finally:
            for worker in self._workers.values():
                worker.close()
        return self._outcome

    def _export(self) -> dict[str, str | None]:
        self._plan.say("exporting")
        command = ["-m", "public.export", self._model.source, self._model.name]
        done = subprocess.run(
            [sys.executable, *command, str(self._directory)],
            cwd=Path(__file__).parents[1],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise ContenderError(f"it cannot be exported: {done.stderr.splitlines()[-1][:200]}")
        return json.loads(done.stdout.splitlines()[-1])

    def _admit(self, name: str, start: Callable[[], Worker]) -> None:
        """Start a contender and check what it computes."""
        run = self._outcome.runs[name] = Run()
        self._plan.say(f"starting {name}")
        try:
            worker = start()
            run.error = deviation(self._array_list(f"{name}.npz"), self._array_list("expected.npz"))
            if not run.error <= _TOLERANCE:  # NaN is no agreement
                worker.close()
                raise ContenderError(f"wrong by {run.error:.1e} of the largest output")
            self._workers[name] = worker
        except ContenderError as error:
            run.failure = str(error)

    def _own(self, way: str, name: str, missing: str | None) -> Worker:
        if missing:
            raise ContenderError(f"PyTorch does not export it: {missing}")
        library, run = self._directory / f"{name}.so", self._outcome.runs[name]
        run.compile_s = self._compile(way, library)
        if way == WAYS[0]:  # the page has compile times of ONNX files
            run.again_s = self._compile(way, library)
        return self._start(name, CONTENDERS["sequential"], library)

    def _compile(self, way: str, library: Path) -> float:
        """Seconds of the command; the caches are the trial's own, and empty the first time."""
        model, database = (self._directory / f"model.{end}" for end in (way, f"{way}.sqlite3"))
        command = ["tvm_ios", "compile", str(model), "-o", str(library), "--no-search"]
        begin = time.perf_counter()
        run_tool(
            [*command, "--threads", str(self._plan.threads), "--database", str(database)],
            self._directory / "compile.log",
            environment={OBJECTS: str(self._directory / f"objects_{way}")},
        )
        return time.perf_counter() - begin

    def _peer(self, name: str, missing: dict[str, str | None]) -> Worker:
        run = self._outcome.runs[name]
        if name == "torch":
            first = self._start(name, _EXPORTED, self._directory / "model.pt2")
            first.close()
            again = self._start(name, _EXPORTED, self._directory / "model.pt2")
            run.compile_s, run.again_s = first.ready["process_s"], again.ready["process_s"]
            return again
        if missing["onnx"]:
            raise ContenderError(f"PyTorch does not export it: {missing['onnx']}")
        worker = self._start(name, CONTENDERS[name], self._directory / "model.onnx")
        run.compile_s = worker.ready["process_s"]
        return worker

    def _start(self, name: str, contender: Contender, path: Path) -> Worker:
        files = self._directory / "inputs.npz", self._directory / f"{name}.npz"
        assignment = Assignment(path, *files, self._plan.threads, self._plan.window)
        return Worker(contender, assignment, self._directory / f"{name}.stderr")

    def _array_list(self, name: str) -> list[np.ndarray]:
        with np.load(self._directory / name) as file:
            return [file[key] for key in file.files]

    def _take_turns(self) -> None:
        """All run once a round, in an order that is drawn anew each time."""
        order = random.Random(0)
        for number in range(self._plan.rounds):
            self._plan.say(f"round {number + 1} of {self._plan.rounds}")
            for name in order.sample(list(self._workers), len(self._workers)):
                run = self._outcome.runs[name]
                try:
                    run.rounds_ms.append(1e3 * self._workers[name].window()["median_s"])
                except ContenderError as error:
                    run.failure = str(error)
                    self._workers.pop(name).close()
