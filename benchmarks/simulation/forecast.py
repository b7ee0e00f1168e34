# SPDX-License-Identifier: Apache-2.0
"""Latencies of networks on any number of workers: simulated, and measured where cores suffice."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import markdown
from simulation.events import Outcome, simulate
from simulation.machine import Machine
from simulation.prices import searched
from simulation.recording import record
from tvm_ios import zoo
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.graph.dag import Candidate
from tvm_ios.graph.operators import OperatorGraph
from tvm_ios.measure.transport import locations
from tvm_ios.measure.transport.locations import LocalRunner
from tvm_ios.options import Options
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.target import available_cores, resolve

SEQUENTIAL, FOUND = "sequential", "found"
_ROUNDS = 25


@dataclass(frozen=True)
class Forecast:
    """A network on a number of workers.

    Attributes
    ----------
    simulated : dict of str to Outcome
        By schedule.
    measured : dict of str to float
        Seconds on this machine; empty where it has too few cores.
    """

    simulated: dict[str, Outcome]
    measured: dict[str, float]

    @property
    def scheduled(self) -> Outcome:
        """The schedule that a search ends with: the sequential one, unless it found a faster."""
        return min(self.simulated.values(), key=lambda outcome: outcome.latency)


class _OnPaper(LocalRunner):
    """A runner of a machine with so many cores, which never runs anything."""

    def __init__(self, cores: int) -> None:
        super().__init__()
        self.machine = locations.Machine("a machine on paper", None, cores)


def forecast(
    model: str,
    workers: int,
    machine: Machine,
    *,
    here: bool = True,
    elsewhere: Mapping[str, float] | None = None,
) -> Forecast:
    """Compile a network of the zoo for so many workers, and tell its latency.

    Parameters
    ----------
    model : str
    workers : int
    machine : Machine
    here : bool
        Whether that is this machine. If it has the cores, kernels are then chosen by its own
        balance of arithmetic and memory, not by a typical one, and the network is measured, too.
    elsewhere : mapping of str to float, optional
        The seconds of operators, by name, on one core of the machine, if it is another one.
    """
    here = here and workers <= available_cores()
    scheduler = Scheduler.prepare(
        zoo.load(model),
        resolve("llvm", threads=workers),
        cost_model=_nothing,
        options=Options(strategies=("concurrent",)),  # what merges operators was not recorded
        runner=LocalRunner() if here else _OnPaper(workers),
    )
    alone = _by_kernel(scheduler, elsewhere or {})
    schedules = {SEQUENTIAL: scheduler.unsearched()}
    recorded = {SEQUENTIAL: record(scheduler, schedules[SEQUENTIAL], alone)}
    if workers > 1:
        found = searched(scheduler, recorded[SEQUENTIAL].kernel_seconds, machine)
        schedules[FOUND], recorded[FOUND] = found, record(scheduler, found, alone)
    simulated = {name: simulate(r.launches, machine) for name, r in recorded.items()}
    return Forecast(simulated, _measured(scheduler, schedules) if here else {})


def _by_kernel(scheduler: Scheduler, seconds: Mapping[str, float]) -> dict[Hashable, float]:
    """Return the seconds of the kernels of operators."""
    operators = scheduler.graph.operators
    made = scheduler.stage_builder.lowered.implementations
    return {
        i.kernel.key: seconds[op.name]
        for op, i in zip(operators, made, strict=True)
        if i is not None and seconds.get(op.name)
    }


def _nothing(_graph: OperatorGraph, candidates: list[Candidate]) -> list[float]:
    """Price stages that nobody asks for: the sequential schedule is not searched."""
    return [0.0] * len(candidates)


def _measured(scheduler: Scheduler, schedules: Mapping[str, Schedule]) -> dict[str, float]:
    """Return the fastest of several windows of each schedule, in turn on this machine."""
    samples: dict[str, list[float]] = {name: [] for name in schedules}

    def work(timers) -> None:
        for _ in range(_ROUNDS):
            for name, timer in timers.items():
                samples[name].append(timer())

    scheduler.compile(schedules).time(work)
    return {name: min(taken) for name, taken in samples.items()}


def table(found: Mapping[str, Mapping[int, Forecast]]) -> str:
    """Return a row for each network and number of workers.

    The speed-up is that of the sequential schedule over one worker, the gain that of the scheduled
    one over it. What the sequential schedule's workers do is given in parts of its latency.
    """
    header = ("network", "workers", "sequential ms", "speed-up", "scheduled ms", "gain",
              "computing", "moving", "memory", "waiting", "measured ms", "off by")  # fmt: skip
    rows = [
        (model, str(workers), *_cells(by_workers, workers))
        for model, by_workers in found.items()
        for workers in by_workers
    ]
    return markdown.table(header, rows)


def _cells(by_workers: Mapping[int, Forecast], workers: int) -> tuple[str, ...]:
    entry = by_workers[workers]
    sequential, scheduled = entry.simulated[SEQUENTIAL], entry.scheduled
    first = by_workers[min(by_workers)].simulated[SEQUENTIAL].latency
    parts = (sequential.computing, sequential.moving, sequential.memory, sequential.waiting)
    measured = entry.measured.get(SEQUENTIAL)
    return (
        f"{1e3 * sequential.latency:.3f}",
        f"{first / sequential.latency:.2f}",
        f"{1e3 * scheduled.latency:.3f}",
        f"{sequential.latency / scheduled.latency:.2f}",
        *(f"{part / sequential.latency:.0%}" for part in parts),
        "–" if measured is None else f"{1e3 * measured:.3f}",
        "–" if measured is None else f"{sequential.latency / measured - 1:+.0%}",
    )
