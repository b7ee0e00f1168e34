# SPDX-License-Identifier: Apache-2.0
"""What is found out about public models, as it is written to a file."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, field
from typing import Any

from peer.figures import Estimate, ratio
from recorded import fields_of

FORMAT, VERSION = "tvm_ios.models", 1
WAYS = ("onnx", "pt2")
OURS = tuple(f"ours_{way}" for way in WAYS)


@dataclass
class Run:
    """A contender on a model.

    Attributes
    ----------
    failure : str or None
        Why there are no figures.
    compile_s, again_s : float or None
        Ours: seconds of the whole command, with empty caches and, of an ONNX file, with full ones.
        A peer's: seconds of a process until its first answer; again where it keeps compiled code.
    error : float or None
        The largest deviation from PyTorch, relative to the largest value.
    rounds_ms : list of float
        The median of each round.
    compile_mb, peak_mb : float or None
        The most that was ever resident, in ours compiling and in the process that is timed.
    """

    failure: str | None = None
    compile_s: float | None = None
    again_s: float | None = None
    error: float | None = None
    rounds_ms: list[float] = field(default_factory=list)
    compile_mb: float | None = None
    peak_mb: float | None = None

    @property
    def median_ms(self) -> float | None:
        return statistics.median(self.rounds_ms) if self.rounds_ms else None


@dataclass
class Outcome:
    """A public model.

    Attributes
    ----------
    name, family, source : str
    failure : str or None
        Why nothing could be found out.
    runs : dict of str to Run
        By contender; ours is there once for each way.
    noise : float or None
        How much the right answers of a quantised model change with its inputs, as an error.
    """

    name: str
    family: str
    source: str
    failure: str | None = None
    runs: dict[str, Run] = field(default_factory=dict)
    noise: float | None = None

    def entry(self, name: str) -> Run:
        """Return the run of a contender, which is empty at first."""
        return self.runs.setdefault(name, Run())

    def compile_ratios(self, name: str) -> tuple[float, float] | None:
        """Return our seconds, first and again, over a peer's first, by the ONNX file."""
        own, peer = self.runs.get(OURS[0]), self.runs.get(name)
        if own is None or peer is None or not (own.compile_s and own.again_s and peer.compile_s):
            return None
        return own.compile_s / peer.compile_s, own.again_s / peer.compile_s

    @property
    def comes_in(self) -> bool:
        """Whether it runs, by at least one way."""
        return any(name in self.runs and self.runs[name].failure is None for name in OURS)

    @property
    def own(self) -> str | None:
        """The faster way of ours."""
        return self._fastest(name for name in self.runs if name in OURS)

    @property
    def best_peer(self) -> str | None:
        return self._fastest(name for name in self.runs if name not in OURS)

    def best_over_ours(self) -> Estimate | None:
        """How many times as long the best peer takes as ours."""
        peer, own = self.best_peer, self.own
        if peer is None or own is None:
            return None
        return ratio(self.runs[peer].rounds_ms, self.runs[own].rounds_ms)

    def _fastest(self, names: Any) -> str | None:
        times = {name: self.runs[name].median_ms for name in names}
        known = {name: time for name, time in times.items() if time is not None}
        return min(known, key=known.__getitem__, default=None)


@dataclass
class Survey:
    """A run of the benchmark.

    Attributes
    ----------
    date : str
    machine : dict
        See :class:`machine.Machine`.
    threads : int
    settings, versions : dict
    outcomes : list of Outcome
    """

    date: str
    machine: dict[str, Any]
    threads: int
    settings: dict[str, Any]
    versions: dict[str, str]
    outcomes: list[Outcome] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, "version": VERSION, **asdict(self)}


def from_json(data: dict[str, Any]) -> Survey:
    """The inverse of :meth:`Survey.to_json`.

    Raises
    ------
    ValueError
        When it is no such record.
    """
    given = fields_of(Survey, data, FORMAT, VERSION)
    outcomes = [outcome_from(outcome) for outcome in given.pop("outcomes")]
    return Survey(**given, outcomes=outcomes)


def outcome_from(data: dict[str, Any]) -> Outcome:
    """The inverse of ``asdict`` of an outcome."""
    return Outcome(**{**data, "runs": {name: Run(**run) for name, run in data["runs"].items()}})
