# SPDX-License-Identifier: Apache-2.0
"""Whether schedules take what the search predicts, and whether two searches agree.

Each network is searched several times, each time in a new process without a database. All schedules
that were found are then timed as whole models, in turn with the sequential one. The machine's clock
differs by some percent between a search and the timing of its schedule. The time of known
arithmetic, taken beside each sample, scales the sample to the speed of the search. ``--neighbour``
repeats this with another process that loads one core in bursts while the searches run.
"""

from __future__ import annotations

import math
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import tvm_ffi

import command
import markdown
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.frontend.models import load_model
from tvm_ios.measure.learned.active import LearnedCost
from tvm_ios.measure.timing.models import Timers
from tvm_ios.measure.timing.rounds import median_seconds
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.target import resolve

MODELS = ("squeezenet", "densenet121", "inception_v3", "randwire_large", "nasnet_a_large")
_BURST, _PAUSE = 0.4, 0.6  # seconds

_time_arithmetic = tvm_ffi.get_global_func("tvm_ios.runtime.TimeArithmetic")
_processes = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Search:
    """A search, and what its schedule takes.

    Attributes
    ----------
    seconds : float
        Of the search.
    measurements : int
        Distinct stages that were measured.
    predicted_ms, measured_ms : float
        Of the schedule that was found, at the machine's speed in the search.
    found_ms : float
        The same at the machine's speed when the schedule was timed.
    predicted_gain, measured_gain : float
        The share of the sequential schedule's time that it saves.
    """

    seconds: float
    measurements: int
    predicted_ms: float
    measured_ms: float
    found_ms: float
    predicted_gain: float
    measured_gain: float

    @property
    def error(self) -> float:
        """How much more was predicted than measured, as a share of it."""
        return self.predicted_ms / self.measured_ms - 1


def search(model: str, threads: int | None) -> tuple[Schedule, Schedule, float]:
    """Search in this process; return the schedule found, the sequential one, and the speed."""
    mod, target = load_model(model), resolve("llvm", threads=threads)
    scheduler = Scheduler.prepare(mod, target)
    cost = scheduler.cost
    assert isinstance(cost, LearnedCost), "it is the default cost model"
    found = scheduler.search()
    assert cost.speed.base is not None, "the search has timed stages"
    return found, scheduler.sequential(), cost.speed.base


def compare(model: str, threads: int | None, number: int, neighbour: bool) -> list[Search]:
    """Search several times, and time what was found."""
    searches = []
    for _ in range(number):
        with _processes.Pool(1) as pool, bursts() if neighbour else _quiet():
            searches.append(pool.apply(search, (model, threads)))
    mod, target = load_model(model), resolve("llvm", threads=threads)
    schedules = {str(i): found for i, (found, _, _) in enumerate(searches)}
    schedules["sequential"] = searches[0][1]
    scheduler = Scheduler.prepare(mod, target)
    speed = Speed(scheduler.workers)
    timed = scheduler.compile(schedules).time(lambda t: median_seconds(speed.relative(t)))
    base = timed["sequential"]
    return [
        Search(
            found.search_seconds,
            found.measurements,
            1e3 * found.estimates["scheduled"],
            1e3 * timed[str(i)] * arithmetic,
            1e3 * timed[str(i)] * speed.usual,
            1 - found.estimates["scheduled"] / sequential.estimates["sequential"],
            1 - timed[str(i)] / base,
        )
        for i, (found, sequential, arithmetic) in enumerate(searches)
    ]


class Speed:
    """The machine's speed while models are timed, in seconds of known arithmetic."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._taken: list[float] = []

    @property
    def usual(self) -> float:
        """The median of all samples."""
        return statistics.median(self._taken)

    def relative(self, timers: Timers) -> Timers:
        """Return timers of the same models, in multiples of the known arithmetic's time."""
        return {name: self._relative(timer) for name, timer in timers.items()}

    def _relative(self, timer: Callable[[], float]) -> Callable[[], float]:
        def time_one() -> float:
            before, seconds, after = self._now(), timer(), self._now()
            return seconds / math.sqrt(before * after)

        return time_one

    def _now(self) -> float:
        self._taken.append(_time_arithmetic(self._workers))
        return self._taken[-1]


@contextmanager
def bursts() -> Iterator[None]:
    """Load one core in bursts, in another process."""
    process = _processes.Process(target=_burst, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()


@contextmanager
def _quiet() -> Iterator[None]:
    yield


def _burst() -> None:
    while True:
        end = time.perf_counter() + _BURST
        while time.perf_counter() < end:
            pass
        time.sleep(_PAUSE)


def show(results: dict[str, list[Search]]) -> None:
    """Print a row for each network: medians, and how far the slowest schedule is off the best."""
    rows = []
    for model, searches in results.items():
        times = [s.measured_ms for s in searches]
        found = [s.found_ms for s in searches]
        rows.append(
            (
                model,
                f"{statistics.median(s.seconds for s in searches):.1f}",
                f"{statistics.median(s.measurements for s in searches):.0f}",
                f"{statistics.median(s.predicted_ms for s in searches):.3f}",
                f"{statistics.median(times):.3f}",
                f"{statistics.median(s.error for s in searches):+.1%}",
                f"{statistics.median(s.predicted_gain for s in searches):.1%}",
                f"{statistics.median(s.measured_gain for s in searches):.1%}",
                f"{max(found) / min(found) - 1:.1%}",
            )
        )
    header = (
        *("network", "search s", "stages measured", "predicted ms", "measured ms", "error"),
        *("predicted gain", "measured gain", "searches differ by"),
    )
    print(markdown.table(header, rows))


def main(arguments: Sequence[str] | None = None) -> None:
    """Search the networks that are named, with and without a neighbour."""
    parser = command.parser(__doc__, [f"zoo:{name}" for name in MODELS], "searches")
    parser.add_argument("--searches", type=int, default=3, metavar="N", help="of each network")
    parser.add_argument("--neighbour", action="store_true", help="load one core in bursts")
    args = parser.parse_args(arguments)
    results: dict[str, list[Search]] = {}
    for model in args.models:
        results[model] = compare(model, args.threads, args.searches, args.neighbour)
        command.write(args.json, neighbour=args.neighbour, searches=results)
    show(results)


if __name__ == "__main__":
    main()
