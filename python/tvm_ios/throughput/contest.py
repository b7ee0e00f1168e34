# SPDX-License-Identifier: Apache-2.0
"""All ways take turns, so that whatever disturbs the machine disturbs all of them."""

from __future__ import annotations

import json
import random
import selectors
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..support.processes import piped
from ..support.progress import progress, working
from . import worker
from .ways import TITLES, Way

_ALIKE = 0.03
"""Ways whose medians differ by less are as fast as each other."""
_FEWEST = 3  # rounds
_PATIENCE = 600.0  # seconds for an answer
_SETTLED, _LOOK = 2.0, 1e-3  # seconds that threads may go on spinning; between two looks


class _Failure(Exception):
    """A system that could not take part, or go on; one sentence."""


@dataclass(frozen=True)
class Entry:
    """A system that takes part.

    Attributes
    ----------
    system : str
        As in :mod:`.ways`.
    model : Path
        A library of ours, or an ONNX file.
    ways : sequence of Way
        All with the same number of threads.
    """

    system: str
    model: Path
    ways: Sequence[Way]


@dataclass
class Figures:
    """What was measured of a way.

    Attributes
    ----------
    samples_per_s, latency_s : list of float
        Of each round; the latency is the median of a call.
    """

    samples_per_s: list[float] = field(default_factory=list)
    latency_s: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Samples a second, the median of the rounds."""
        return statistics.median(self.samples_per_s)

    @property
    def latency(self) -> float:
        """Seconds of a call, the median of the rounds."""
        return statistics.median(self.latency_s)


@dataclass
class Result:
    """What was measured.

    Attributes
    ----------
    figures : dict of Way to Figures
    left_out : dict of str to str
        Why a system has none.
    errors : dict of str to float
        The largest difference of a system's outputs from those of the first entry, relative to the
        largest number in an output.
    """

    figures: dict[Way, Figures] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)

    def best(self, systems: Sequence[str]) -> Way | None:
        """Return the fastest way of some systems; of those that are alike that of least latency."""
        known = [way for way in self.figures if way.system in systems]
        if not known:
            return None
        limit = (1 - _ALIKE) * max(self.figures[way].rate for way in known)
        alike = [way for way in known if self.figures[way].rate >= limit]
        return min(alike, key=lambda way: self.figures[way].latency)

    def ratio(self, first: Way, second: Way) -> float:
        """Return the samples a second of a way, divided by those of another in the same round."""
        pairs = zip(
            self.figures[first].samples_per_s, self.figures[second].samples_per_s, strict=True
        )
        return statistics.median(a / b for a, b in pairs)


def contest(
    entries: Sequence[Entry],
    inputs: Mapping[int, Sequence[np.ndarray]],
    folder: Path,
    *,
    rounds: int,
    seconds: float,
    limit: float,
) -> Result:
    """Measure all ways of all systems in turns.

    Parameters
    ----------
    entries : sequence of Entry
    inputs : mapping of int to sequence of numpy.ndarray
        The inputs for each batch, in the order of the model.
    folder : Path
        For files.
    rounds : int
        Turns of each way.
    seconds : float
        The length of a turn, unless a call takes longer.
    limit : float
        The seconds after which no further round begins, if there were three.
    """
    result = Result()
    files = {batch: folder / f"inputs-{batch}.npz" for batch in inputs}
    for batch, arrays in inputs.items():
        np.savez(files[batch], *arrays)
    with ExitStack() as stack:
        running: dict[Way, _Worker] = {}
        expected: list[np.ndarray] = []
        for number, entry in enumerate(entries):
            started = _Worker(entry, files, folder / str(number))
            stack.callback(started.close)
            try:
                with working(f"starting {TITLES[entry.system]}"):
                    outputs = started.ready()
            except _Failure as failure:
                result.left_out[entry.system] = str(failure)
                continue
            expected = expected or outputs
            error = _deviation(outputs, expected)
            result.errors[entry.system] = max(error, result.errors.get(entry.system, 0.0))
            running |= dict.fromkeys(entry.ways, started)
        _take_turns(running, result, rounds, seconds, limit)
    return result


def _deviation(outputs: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """Return the largest difference, relative to the largest number that is expected."""
    if [array.shape for array in outputs] != [array.shape for array in expected]:
        return float("inf")
    return max(_difference(*pair) for pair in zip(outputs, expected, strict=True))


def _difference(output: np.ndarray, expected: np.ndarray) -> float:
    wanted = expected.astype("float64")
    largest = max(float(np.abs(wanted).max(initial=0.0)), float(np.finfo("float32").tiny))
    return float(np.abs(output - wanted).max(initial=0.0)) / largest


def _take_turns(
    running: dict[Way, _Worker], result: Result, rounds: int, seconds: float, limit: float
) -> None:
    """Let all ways run once a round, in an order that is drawn anew each time."""
    result.figures |= {way: Figures() for way in running}
    order, end = random.Random(0), time.monotonic() + limit
    with progress("measuring", rounds * len(running)) as advance:
        for number in range(rounds):
            if number >= _FEWEST and time.monotonic() > end:
                break
            for way in order.sample(list(running), len(running)):
                figures = result.figures.get(way)
                if figures is not None:
                    try:
                        running[way].turn(way, seconds, figures)
                    except _Failure as failure:
                        result.left_out[way.system] = str(failure)
                        _dismiss(way.system, result)
                advance(1)


def _dismiss(system: str, result: Result) -> None:
    for way in [way for way in result.figures if way.system == system]:
        del result.figures[way]


class _Worker:
    """A process that runs :mod:`.worker`."""

    def __init__(self, entry: Entry, inputs: Mapping[int, Path], folder: Path) -> None:
        folder.mkdir()
        self._outputs = {batch: folder / f"outputs-{batch}.npz" for batch in inputs}
        self._log = (folder / "log").open("wb")
        request = {
            "system": entry.system,
            "model": str(entry.model),
            "threads": max(way.threads for way in entry.ways),
            "inputs": {batch: str(path) for batch, path in inputs.items()},
            "outputs": {batch: str(path) for batch, path in self._outputs.items()},
        }
        self._process = subprocess.Popen(
            [sys.executable, str(Path(worker.__file__)), json.dumps(request)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            bufsize=0,
            start_new_session=True,  # Ctrl-C goes to the command, which ends the process
        )

    def ready(self) -> list[np.ndarray]:
        """Wait until the model is loaded, and return what it computes at all batches."""
        self._answer()
        outputs: list[np.ndarray] = []
        for path in self._outputs.values():
            with np.load(path) as file:
                outputs += (file[name] for name in file.files)
        return outputs

    def turn(self, way: Way, seconds: float, figures: Figures) -> None:
        """Let it run for a while, and wait until its threads have come to rest."""
        turn = {"callers": way.callers, "batch": way.batch, "seconds": seconds}
        with suppress(BrokenPipeError):
            piped(self._process.stdin).write(f"{json.dumps(turn)}\n".encode())
        answer = self._answer()
        figures.samples_per_s.append(answer["samples_per_s"])
        figures.latency_s.append(answer["latency_s"])
        self._settle()

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def _answer(self) -> dict[str, Any]:
        stdout = piped(self._process.stdout)
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            if not selector.select(_PATIENCE):
                raise _Failure(f"gave no answer in {_PATIENCE:g} s")
        line = stdout.readline()
        if not line:
            raise _Failure(self._end())
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise _Failure(answer["error"])
        return answer

    def _end(self) -> str:
        status = self._process.wait()
        if status < 0:
            return f"its process was ended by {signal.Signals(-status).name}"
        return f"its process ended with status {status}"

    def _settle(self) -> None:
        """Wait until no thread of the process wants a core: pools spin for a while after a run."""
        end = time.monotonic() + _SETTLED
        while time.monotonic() < end and _wants_a_core(self._process.pid):
            time.sleep(_LOOK)


def _wants_a_core(pid: int) -> bool:
    for path in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):  # the thread has ended
            if path.read_text().rpartition(") ")[2][0] == "R":
                return True
    return False
