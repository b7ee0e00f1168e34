# SPDX-License-Identifier: Apache-2.0
"""One network: its runtimes take turns under one condition after another."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from busy_machine.calls import Slice
from busy_machine.conditions import Condition
from busy_machine.limits import Limit, quota
from busy_machine.neighbours import busy
from busy_machine.networks import NETWORKS, Files, companion
from busy_machine.process import Process
from busy_machine.record import Cell
from busy_machine.runtimes import OWN
from peer.contest import deviation
from peer.process import ContenderError

_TOLERANCE = 1e-3  # relative to the largest output


@dataclass(frozen=True)
class Plan:
    """How networks are measured.

    Attributes
    ----------
    runtimes : sequence of str
    threads : int
    search : bool
        Whether our libraries' schedules are searched for.
    seconds, slice_s : float
        How long each cell is measured, and how long a runtime's turn is.
    folder : Path
        Where files are kept.
    say : callable
        Takes what is being done, for whoever waits.
    """

    runtimes: Sequence[str]
    threads: int
    search: bool
    seconds: float
    slice_s: float
    folder: Path
    say: Callable[[str], None]

    def files(self, network: str) -> Files:
        return Files(NETWORKS[network], self.folder, self.threads, self.search)


def measure(
    network: str, conditions: Sequence[Condition], plan: Plan
) -> Iterator[tuple[Condition, list[Cell]]]:
    """Yield the cells of each condition, as soon as they are known."""
    for (cores, together), group in itertools.groupby(
        conditions, lambda condition: (condition.quota, condition.companion)
    ):
        with contextlib.ExitStack() as stack:
            limit = stack.enter_context(quota(cores, plan.threads)) if cores else Limit()
            team = stack.enter_context(contextlib.closing(Team(network, plan, limit, together)))
            for condition in group:
                yield condition, team.under(condition)


class Team:
    """The processes of all runtimes, which have loaded a network, until they are closed."""

    def __init__(self, network: str, plan: Plan, limit: Limit, together: bool) -> None:
        self._network, self._plan, self._limit = network, plan, limit
        self._names = [network, companion(network)] if together else [network]
        self._processes: dict[str, Process] = {}
        self._errors: dict[str, float] = {}
        self._failures: dict[str, str] = {}
        try:
            expected = _arrays(plan.files(network).expected())
            for runtime in plan.runtimes:
                self._admit(runtime, expected)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the processes."""
        for runtime in list(self._processes):
            self._processes.pop(runtime).close()

    def under(self, condition: Condition) -> list[Cell]:
        """Measure all runtimes beside the same neighbours."""
        found: dict[str, Slice] = {}
        with busy(condition.busy, condition.nice, condition.bound):
            order = random.Random(0)
            for number in itertools.count(1):
                due = [name for name in self._processes if self._is_due(found.get(name))]
                if not due:
                    break
                self._plan.say(f"{condition.title}, round {number}")
                # All, whoever is due: they meet the same neighbours equally often.
                for runtime in order.sample(list(self._processes), len(self._processes)):
                    self._turn(runtime, condition, found.setdefault(runtime, Slice()))
        return [self._cell(runtime, condition, found) for runtime in self._plan.runtimes]

    def _is_due(self, found: Slice | None) -> bool:
        return found is None or found.wall_s < self._plan.seconds

    def _turn(self, runtime: str, condition: Condition, found: Slice) -> None:
        process = self._processes[runtime]
        try:
            share = self._limit.share
            found.add(process.slice(self._plan.slice_s, condition.callers, share))
        except ContenderError as error:
            self._dismiss(runtime, error)

    def _admit(self, runtime: str, expected: Sequence[np.ndarray]) -> None:
        """Start a runtime and check what it computes."""
        try:
            models = [self._files(runtime, name) for name in self._names]
            self._plan.say(f"starting {runtime}")
            outputs = self._plan.files(self._network).own / f"{runtime}.npz"
            prefix = self._limit.prefix()
            process = Process(runtime, models, outputs, self._plan.threads, prefix)
            self._processes[runtime] = process
            error = self._errors[runtime] = deviation(_arrays(outputs), expected)
            if not error <= _TOLERANCE:  # NaN is no agreement
                raise ContenderError(f"wrong by {error:.1e} of the largest output")
        except ContenderError as error:
            self._dismiss(runtime, error)

    def _files(self, runtime: str, name: str) -> tuple[Path, Path]:
        """What a runtime loads, and the inputs."""
        files = self._plan.files(name)
        if runtime != OWN:
            return files.model(), files.inputs()
        if not files.library_path.exists():
            self._plan.say(f"compiling {name}")
        return files.library(), files.inputs()

    def _dismiss(self, runtime: str, error: ContenderError) -> None:
        """Note why a runtime has no figures; the others go on."""
        self._failures[runtime] = str(error)
        self._plan.say(f"{runtime} failed: {error}")
        if runtime in self._processes:
            self._processes.pop(runtime).close()

    def _cell(self, runtime: str, condition: Condition, found: dict[str, Slice]) -> Cell:
        cell = Cell(self._network, condition.name, runtime, way=self._limit.way)
        cell.error = self._errors.get(runtime)
        cell.failure = self._failures.get(runtime)
        if cell.failure is None:
            cell.fill(found[runtime])
        return cell


def _arrays(path: Path) -> list[np.ndarray]:
    with np.load(path) as file:
        return [file[name] for name in file.files]
