# SPDX-License-Identifier: Apache-2.0
"""A network on some cores of the CPU, which does on request what must be done at the right time.

Requests are lines of standard input, and there is one message for each:

``prepare``
    Compile the network without a search, and start ONNX Runtime.
``search``
    Search; then compile the sequential, the greedy and the found schedule, with barriers, too.
``time``
    Time all that is compiled and ONNX Runtime, in the same rounds.
``trace``
    Write the timelines of the unsearched and the found schedule.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from gpu_phases.messages import Channel
from gpu_phases.networks import arrays, relative_error
from peer.contender import CONTENDERS
from peer.models import load
from peer.process import Assignment, ContenderError, Worker
from tvm_ios import zoo
from tvm_ios.compiler.compare import BARRIERS, GREEDY, SCHEDULED, SEQUENTIAL
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.measure.timing.models import Timers, Variants
from tvm_ios.options import Options
from tvm_ios.schedule import Schedule
from tvm_ios.target import resolve

UNSEARCHED, PEER = "unsearched", "onnxruntime"
_WINDOW = 0.05  # seconds of ONNX Runtime's turn; TVM's timers have a window of their own
_REST = 0.3  # seconds for which threads of TVM's pool may go on spinning
_ROUNDS, _FEWEST_ROUNDS = 15, 3
_SECONDS = 5.0  # after which no round begins
_TRACES = 10


class Cell:
    """A network, and who runs it.

    Parameters
    ----------
    args : argparse.Namespace
    folder : Path
        For what only this process needs.
    """

    def __init__(self, args: argparse.Namespace, folder: Path) -> None:
        self._args, self._folder = args, folder
        self._schedules: dict[str, Schedule] = {}
        self._scheduler: Scheduler
        self._variants: Variants
        self._peer: Worker | None = None

    def prepare(self) -> dict[str, Any]:
        """Compile the network without a search, and start ONNX Runtime."""
        target = resolve("llvm", threads=self._args.threads)
        options = Options(database=self._args.database)
        self._scheduler = Scheduler.prepare(zoo.load(self._args.network), target, options=options)
        self._schedules[UNSEARCHED] = self._scheduler.unsearched()
        self._variants = self._scheduler.compile(self._schedules)
        try:
            return self._started_peer()
        except ContenderError as error:
            return {"left_out": {PEER: str(error)}}

    def _started_peer(self) -> dict[str, Any]:
        model = load(self._args.network, 1, self._folder)
        given, computed = (self._folder / name for name in ("inputs.npz", "outputs.npz"))
        np.savez(given, **model.inputs)  # type: ignore[arg-type]  # a name is none of its options
        assignment = Assignment(model.path, given, computed, self._args.threads, _WINDOW)
        self._peer = Worker(CONTENDERS[PEER], assignment, self._folder / "stderr")
        with np.load(computed) as outputs:
            expected = [outputs[name] for name in outputs.files]
        inputs = [tvm.runtime.tensor(array) for array in model.inputs.values()]
        ours = arrays(self._variants(UNSEARCHED, inputs))
        return {"max_rel_error": relative_error(ours, expected)}

    def search(self) -> dict[str, Any]:
        """Search, and compile all schedules."""
        found = self._scheduler.search()
        found.save(self._args.schedule)
        self._schedules |= {
            SEQUENTIAL: self._scheduler.sequential(),
            GREEDY: self._scheduler.greedy(),
            SCHEDULED: found,
            BARRIERS: replace(found, synchronization="barrier"),
        }
        self._variants = self._scheduler.compile(self._schedules)
        return {
            "search_s": round(found.search_seconds or 0.0, 1),
            "measurements": found.measurements,
            "stages": len(found.stages),
            "operators": len(found.operators),
            "groups": [len(stage.groups) for stage in found.stages],
            "estimates": dict(found.estimates),
        }

    def time(self) -> dict[str, Any]:
        """Time whoever is there, in an order that moves from round to round."""
        samples = self._variants.time(self._rounds)
        return {
            "ms": {name: 1e3 * statistics.median(taken) for name, taken in samples.items()},
            "samples_ms": {n: [round(1e3 * t, 4) for t in taken] for n, taken in samples.items()},
        }

    def _rounds(self, timers: Timers) -> dict[str, list[float]]:
        turns: dict[str, Callable[[], float]] = dict(timers)
        if self._peer is not None:
            turns[PEER] = self._peer_seconds
        names, end = list(turns), time.monotonic() + _SECONDS
        samples: dict[str, list[float]] = {name: [] for name in names}
        for number in range(_ROUNDS):
            first = number % len(names)
            for name in [*names[first:], *names[:first]]:
                samples[name].append(turns[name]())
            if number + 1 >= _FEWEST_ROUNDS and time.monotonic() > end:
                break
        return samples

    def _peer_seconds(self) -> float:
        assert self._peer is not None
        time.sleep(_REST)
        return float(self._peer.window()["median_s"])

    def trace(self) -> dict[str, Any]:
        """Write when each worker computes what."""
        for name in (UNSEARCHED, SCHEDULED):
            if name in self._schedules:
                timeline = self._scheduler.trace(self._schedules[name], _TRACES)
                spans = json.dumps([asdict(span) for span in timeline.spans])
                path: Path = self._args.timelines / f"{self._args.schedule.stem}-{name}.json"
                path.write_text(spans)
        return {}

    def close(self) -> None:
        """End ONNX Runtime."""
        if self._peer is not None:
            self._peer.close()


def main() -> None:
    """Answer requests until there are no more."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", help="of the zoo")
    parser.add_argument("threads", type=int)
    for name in ("schedule", "database", "timelines"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    channel = Channel()
    with tempfile.TemporaryDirectory() as folder:
        cell = Cell(parser.parse_args(), Path(folder))
        for line in sys.stdin:
            channel.say(_answer(cell, line.strip()))
        cell.close()


def _answer(cell: Cell, request: str) -> dict[str, Any]:
    """What came of a request; a failure is told, and the process goes on with what it has."""
    found: dict[str, Any] = {}
    begin, failure = time.monotonic(), None
    try:
        found = getattr(cell, request)()
    except Exception as error:
        traceback.print_exc()
        failure = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    told = {"seconds": round(time.monotonic() - begin, 1), "failure": failure}
    return {"requests": {request: told}, **found}


if __name__ == "__main__":
    main()
