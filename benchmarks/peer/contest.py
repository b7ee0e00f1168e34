# SPDX-License-Identifier: Apache-2.0
"""One network: everybody gets ready, then they run in turns."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from peer.contender import COMPILED, CONTENDERS, PEAK, REFERENCE, Contender
from peer.libraries import Compiler, Search
from peer.models import Model
from peer.process import Assignment, ContenderError, Worker
from peer.record import Entry, Result

_TOLERANCE = 1e-4  # relative to the largest output; sums in another order stay far below
ROUNDED = 0.1
"""The same in another precision, or in integers; a mistake is larger."""
_REPORTED = (
    "target",
    "threads",
    "operators",
    "stages",
    "measurements",
    "search_s",
    "found_ms",
    "rounding",
    "gains",
)
_PEAK, _REFERENCE = "peak", "reference"


@dataclass(frozen=True)
class Plan:
    """How a comparison is run.

    Attributes
    ----------
    names : sequence of str
        Of the contenders.
    search : Search
    rounds : int
    window : float
        Seconds of a contender's turn.
    say : callable
        Takes what is being done, for whoever waits.
    """

    names: Sequence[str]
    search: Search
    rounds: int
    window: float
    say: Callable[[str], None]


class Contest:
    """The contenders' processes on one network; files go to ``directory``."""

    def __init__(self, model: Model, plan: Plan, directory: Path) -> None:
        self._model, self._plan, self._directory = model, plan, directory
        self._compiler = Compiler(model.path, directory, plan.search)
        self._result = Result(model.name, multiply_adds=model.multiply_adds)
        self._workers: dict[str, Worker] = {}
        self._windows: dict[str, list[dict[str, Any]]] = {}

    def run(self) -> Result:
        """Time everybody.

        Raises
        ------
        ContenderError
            When the reference or the peak cannot be had; what befalls a contender is in the
            result.
        """
        np.savez(self._directory / "inputs.npz", **self._model.inputs)
        try:
            expected = self._reference()
            self._start(_PEAK, PEAK, self._model.path)
            for name in self._plan.names:
                self._admit(name, expected)
            self._take_turns()
        finally:
            for name in list(self._workers):
                self._workers.pop(name).close()
        self._summarise()
        return self._result

    def _reference(self) -> list[np.ndarray]:
        self._plan.say("reference")
        self._start(_REFERENCE, REFERENCE, self._model.path)
        self._workers.pop(_REFERENCE).close()
        return self._outputs(_REFERENCE)

    def _admit(self, name: str, expected: Sequence[np.ndarray]) -> None:
        """Start a contender and check what it computes."""
        entry = self._result.entries[name] = Entry()
        try:
            path = self._compile(name, entry) if name in COMPILED else self._model.path
            self._plan.say(f"starting {name}")
            ready = self._start(name, CONTENDERS[name], path).ready
            entry.prepare_s, entry.start_mb = ready["prepare_s"], ready["start_bytes"] / 1e6
            entry.precision = entry.precision or ready["precision"]
            entry.error = deviation(self._outputs(name), expected)
            exact = CONTENDERS[name].exact and not self._model.quantized
            allowed = _TOLERANCE if exact else ROUNDED
            if not entry.error <= allowed:  # NaN is no agreement
                raise ContenderError(f"wrong by {entry.error:.1e} of the largest output")
        except ContenderError as error:
            self._dismiss(name, error)

    def _compile(self, name: str, entry: Entry) -> Path:
        self._plan.say(f"compiling {name}")
        library = self._compiler.compile(name)
        entry.compile_s = library.compile_s
        entry.precision = _precision(library.report)
        self._result.compiled[name] = {k: v for k, v in library.report.items() if k in _REPORTED}
        return library.path

    def _start(self, name: str, contender: Contender, path: Path) -> Worker:
        files = self._directory / "inputs.npz", self._directory / f"{name}.npz"
        assignment = Assignment(path, *files, self._plan.search.threads, self._plan.window)
        worker = Worker(contender, assignment, self._directory / f"{name}.stderr")
        self._workers[name] = worker
        return worker

    def _outputs(self, name: str) -> list[np.ndarray]:
        with np.load(self._directory / f"{name}.npz") as file:
            return [file[key] for key in file.files]

    def _dismiss(self, name: str, error: ContenderError) -> None:
        """Note why a contender has no figures; the others go on."""
        if name == _PEAK:
            raise error
        self._result.entries[name].failure = str(error)
        self._plan.say(f"{name} failed: {error}")
        if name in self._workers:
            self._workers.pop(name).close()

    def _take_turns(self) -> None:
        """All run once a round, in an order that is drawn anew each time."""
        order = random.Random(0)
        for number in range(self._plan.rounds):
            self._plan.say(f"round {number + 1} of {self._plan.rounds}")
            for name in order.sample(list(self._workers), len(self._workers)):
                try:
                    self._windows.setdefault(name, []).append(self._workers[name].window())
                except ContenderError as error:
                    self._dismiss(name, error)

    def _summarise(self) -> None:
        bursts = (w["flops"] / w["fastest_s"] for w in self._windows[_PEAK])
        peak = self._result.peak_gflops = max(bursts) / 1e9
        for name, entry in self._result.entries.items():
            if entry.failure is None:
                _fill(entry, self._windows[name], 2 * self._model.multiply_adds / 1e9, peak)


def _fill(entry: Entry, windows: Sequence[dict[str, Any]], gflop: float, peak: float) -> None:
    """The figures of a contender that lasted to the end."""
    entry.rounds_ms = [1e3 * w["median_s"] for w in windows]
    entry.median_ms = statistics.median(entry.rounds_ms)
    entry.fastest_ms = 1e3 * min(w["fastest_s"] for w in windows)
    entry.runs = sum(w["runs"] for w in windows)
    entry.peak_mb = max(w["peak_bytes"] for w in windows) / 1e6
    entry.rest_s = max(w["rest_s"] for w in windows)
    entry.gflops = 1e3 * gflop / entry.median_ms
    entry.share_of_peak = entry.gflops / peak


def deviation(actual: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """The largest difference, relative to the largest value expected, over all outputs.

    Raises
    ------
    ContenderError
        When the outputs differ in number or shape.
    """
    if [a.shape for a in actual] != [e.shape for e in expected]:
        raise ContenderError("its outputs have other shapes")
    return max(_largest(a.astype("float64"), e) for a, e in zip(actual, expected, strict=True))


def _largest(actual: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference of one output; that of integers, too, which may all be 0."""
    if not expected.size:
        return 0.0
    largest = np.abs(expected.astype("float64")).max()
    return float(np.abs(actual - expected).max() / max(largest, np.finfo("float32").tiny))


def _precision(report: Mapping[str, Any]) -> str:
    """Return what a library of ours computes in, by what its compiler printed."""
    rounded, multiplying = report["bf16_operators"], report["multiplying_operators"]
    if not rounded:
        return "f32"
    return "bf16" if rounded == multiplying else f"bf16 in {rounded} of {multiplying}"
