# SPDX-License-Identifier: Apache-2.0
"""Features of stages, computed for tens of thousands at once.

A stage is described relative to its operators in serial order, each on all workers. These latencies
are measured before anything else, so the model predicts only how much a stage saves or loses
against them. A stage can save barriers, the time in which workers wait for an operator's last tile,
and reads of what another operator has just written. It loses if its data no longer fits the caches,
or if its work partitioning is uneven.

No feature is a number of seconds or bytes. Each is a share or a ratio to a figure of the machine:
its peak, its bandwidth, its caches, the cost of its barrier. Stages of other networks, other
numbers of workers and other machines therefore teach the model something about those of this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...graph.dag import Candidate
from ...lowering.machine import Machine
from .members import Members
from .operator_table import CLASSES, OperatorTable

FEATURES = (
    "operators",
    "groups",
    "merge",
    "depth",  # operators in the longest chain
    "workers",  # log
    "barriers",  # log: a barrier after each operator, over the serial time
    "saved_barriers",  # barriers that the stage does without, over the serial time
    "arithmetic",  # log: the share of the machine's peak that the operators reach
    "transfer",  # log: the share of its bandwidth, by the bytes read and written
    "weights",  # log: the same of constants
    "intensity",  # log: time of the arithmetic at the peak over that of all bytes at the bandwidth
    "largest",  # the longest operator's share of the time
    "parallel",  # parallel efficiency: time on one worker over workers times the time on all
    "uneven",  # share of the time lost against an even partitioning
    "waiting",  # share of the time spent waiting for an operator's last tile
    "balance",  # time of the longest group over an even share of the work
    "by_groups",  # log: ideal time by groups over the serial time
    "by_tiles",  # log: ideal time by tiles over the serial time
    "tiles",  # log: tiles per worker
    "phases",
    "passed",  # share of the moved bytes that one operator writes for another
    "passed_in_cache",  # log: those bytes over the L2 caches of all workers
    "working_set",  # log: all bytes over the L2 caches of all workers
    "planes",  # share of the operators that can be computed in row strips
    *(f"share_{name}" for name in (*CLASSES, "other")),  # each class's share of the time
)

_LEAST = 1e-5  # shares below this do not differ


@dataclass(frozen=True)
class StageFeatures:
    """A feature extractor for candidate stages of one network.

    Attributes
    ----------
    table : OperatorTable
        The operators.
    machine : Machine
        The machine that measures.
    """

    table: OperatorTable
    machine: Machine

    def serial(self, candidates: Sequence[Candidate]) -> np.ndarray:
        """Return the seconds of each candidate's operators in serial order, float64 [n]."""
        stages = self._members(candidates)
        return stages.sum(self.table.values["seconds"][stages.op])

    def __call__(self, candidates: Sequence[Candidate]) -> np.ndarray:
        """Return the features in the order of :data:`FEATURES`, float32 [n, features]."""
        stages = self._members(candidates)
        values = {name: column[stages.op] for name, column in self.table.values.items()}
        merge = np.array([c.strategy == "merge" for c in candidates], "float64")
        columns = _Columns(stages, values, self.machine)
        known = {
            "merge": merge,
            **columns.structure(),
            **columns.units(),
            **columns.partitioning(),
            **columns.caches(),
            **self._classes(stages, values["seconds"]),
        }
        return np.stack([known[name] for name in FEATURES], axis=1).astype("float32")

    def _members(self, candidates: Sequence[Candidate]) -> Members:
        return Members.of(candidates, self.table.edges, len(self.table.classes))

    def _classes(self, stages: Members, seconds: np.ndarray) -> dict[str, np.ndarray]:
        """Return the share of the time that each class of kernels takes."""
        classes = self.table.classes[stages.op]
        serial = np.maximum(stages.sum(seconds), 1e-9)
        return {
            f"share_{name}": stages.sum(seconds * (classes == number)) / serial
            for number, name in enumerate((*CLASSES, "other"))
        }


class _Columns:
    """The columns of the features, by subject.

    Parameters
    ----------
    stages : Members
        The members of the stages.
    values : dict of str to numpy.ndarray
        float64 [members]: the columns of the operator table.
    machine : Machine
        The machine.
    """

    def __init__(self, stages: Members, values: dict[str, np.ndarray], machine: Machine) -> None:
        self._stages, self._values, self._machine = stages, values, machine
        self._totals = {name: stages.sum(column) for name, column in values.items()}
        self._serial = np.maximum(self._totals["seconds"], 1e-9)

    def structure(self) -> dict[str, np.ndarray]:
        stages = self._stages
        return {
            "operators": stages.size,
            "groups": stages.sum((stages.group == np.arange(len(stages.op))).astype("float64")),
            "depth": stages.max(stages.depth),
            "workers": np.full(len(stages.size), np.log2(self._machine.workers)),
            "phases": self._totals["phases"],
            "planes": self._totals["plane"] / stages.size,
            "largest": stages.max(self._values["seconds"]) / self._serial,
        }

    def units(self) -> dict[str, np.ndarray]:
        """Return times at the machine's figures over the serial time."""
        machine, totals, stages = self._machine, self._totals, self._stages
        arithmetic = totals["flops"] / machine.flops
        moved, weights = (totals[name] / machine.bandwidth for name in ("moved", "weights"))
        barrier = machine.barrier / self._serial
        intensity = _log(arithmetic / self._serial) - _log((moved + weights) / self._serial)
        return {
            "barriers": _log(barrier * stages.size),
            "saved_barriers": barrier * (stages.size - stages.max(stages.depth)),
            "arithmetic": _log(arithmetic / self._serial),
            "transfer": _log(moved / self._serial),
            "weights": _log(weights / self._serial),
            "intensity": intensity,
        }

    def partitioning(self) -> dict[str, np.ndarray]:
        """Return how evenly the workers can share the work, and what that would save."""
        workers, values, stages = self._machine.workers, self._values, self._stages
        seconds, alone, tiles = (values[n] for n in ("seconds", "on_one_worker", "tiles"))
        rounds = np.ceil(tiles / workers)
        waiting = seconds * (1 - tiles / np.maximum(rounds * workers, 1)) * (tiles > 0)
        uneven = np.maximum(seconds - alone / workers, 0.0)
        even = self._totals["on_one_worker"] / workers
        longest = stages.max(np.bincount(stages.group, alone, len(alone)))
        by_tiles = stages.by_levels(alone / workers, alone / np.maximum(tiles, 1))
        return {
            "parallel": even / self._serial,
            "uneven": stages.sum(uneven) / self._serial,
            "waiting": stages.sum(waiting) / self._serial,
            "balance": longest / np.maximum(even, 1e-12),
            "by_groups": _log(np.maximum(longest, even) / self._serial),
            "by_tiles": _log(by_tiles / self._serial),
            "tiles": np.log1p(self._totals["tiles"] / workers),
        }

    def caches(self) -> dict[str, np.ndarray]:
        """Return what operators pass on, and what the caches hold."""
        totals, caches = self._totals, self._machine.cache_bytes * self._machine.workers
        passed = self._stages.sum(_passed(self._values["written"], self._stages.inner_edges))
        return {
            "passed": passed / np.maximum(totals["moved"], 1),
            "passed_in_cache": np.log1p(passed / caches),
            "working_set": np.log1p((totals["moved"] + totals["weights"]) / caches),
        }


def _log(share: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(share, _LEAST))


def _passed(written: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """Return the bytes that each member writes for others of its stage, float64 [members]."""
    result = np.zeros(len(written))
    producers = np.unique(inner[:, 0])
    result[producers] = written[producers]
    return result
