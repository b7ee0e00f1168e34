# SPDX-License-Identifier: Apache-2.0
"""What a comparison finds out, as it is written to a file."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from peer.contender import AUTO, COMPILED, CONTENDERS
from peer.figures import Estimate, geometric_mean, ratio
from recorded import fields_of

FORMAT, VERSION = "tvm_ios.baselines", 1
OWN = "scheduled"  # the entry of ours that is held against the peers


@dataclass
class Entry:
    """One contender on one network.

    Attributes
    ----------
    failure : str or None
        Why there are no figures; nothing else counts then.
    rounds_ms : list of float
        The median of each round.
    fastest_ms : float
        The fastest run of all rounds.
    runs : int
        How many were timed.
    compile_s : float or None
        Ours: the whole command, in another process. Search included where there is one.
    prepare_s : float
        From the imports to the end of the first run; of the others this holds what compiles.
    start_mb, peak_mb : float
        Resident memory after the imports, and the most ever, of the process that is timed.
    rest_s : float
        The longest that its threads went on spinning after a round.
    error : float
        Largest deviation from the reference, relative to the reference's largest value.
    gflops, share_of_peak : float
        By the network's multiply-adds and the median time.
    precision : str or None
        What it says that it computes in.
    """

    failure: str | None = None
    rounds_ms: list[float] = field(default_factory=list)
    median_ms: float | None = None
    fastest_ms: float | None = None
    runs: int = 0
    compile_s: float | None = None
    prepare_s: float | None = None
    start_mb: float | None = None
    peak_mb: float | None = None
    rest_s: float = 0.0
    error: float | None = None
    gflops: float | None = None
    share_of_peak: float | None = None
    precision: str | None = None


@dataclass
class Result:
    """One network.

    Attributes
    ----------
    failure : str or None
        Why it could not be compared at all.
    multiply_adds : int
    peak_gflops : float
        The fastest multiply-adds of all rounds, on all threads.
    compiled : dict
        What ``tvm-ios compile`` printed, by entry.
    entries : dict of str to Entry
    """

    model: str
    failure: str | None = None
    multiply_adds: int = 0
    peak_gflops: float | None = None
    compiled: dict[str, dict[str, Any]] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)

    def best_peer(self, *, exact: bool = True) -> str | None:
        """The fastest of the others in float32, or of all whatever they compute in."""
        times = {
            name: entry.median_ms
            for name, entry in self.entries.items()
            if name not in COMPILED and entry.failure is None
            if not exact or CONTENDERS[name].exact
        }
        return min(times, key=times.__getitem__, default=None)

    def over_ours(self, name: str, own: str = OWN) -> Estimate | None:
        """How many times as long an entry takes as ours."""
        pair = self._pair(name, own)
        return None if pair is None else ratio(*pair)

    def fastest_over_ours(self) -> float | None:
        """The fastest run of all others over our fastest, which neighbours disturb least."""
        own = self.entries.get(OWN, Entry()).fastest_ms
        others = [
            entry.fastest_ms
            for name, entry in self.entries.items()
            if name not in COMPILED and CONTENDERS[name].exact
        ]
        known = [time for time in others if time is not None]
        return min(known) / own if own is not None and known else None

    def pair_with_best(self, own: str = OWN) -> tuple[list[float], list[float]] | None:
        """Rounds of the best peer and of ours, if there are both.

        What is compared with :data:`AUTO` computes in whatever it chooses.
        """
        best = self.best_peer(exact=own != AUTO)
        return None if best is None else self._pair(best, own)

    def _pair(self, name: str, entry: str) -> tuple[list[float], list[float]] | None:
        other, own = self.entries.get(name), self.entries.get(entry)
        if other is None or own is None or other.failure or own.failure:
            return None
        return other.rounds_ms, own.rounds_ms


@dataclass
class Comparison:
    """A run of the benchmark.

    Attributes
    ----------
    date : str
    machine : dict
        See :class:`machine.Machine`.
    threads, batch : int
    settings : dict
        Of the search and of the rounds.
    versions : dict
        Of the packages, and of tvm_ios the commit.
    contenders : dict
        How each was set up.
    results : list of Result
    """

    date: str
    machine: dict[str, Any]
    threads: int
    batch: int
    settings: dict[str, Any]
    versions: dict[str, str]
    contenders: dict[str, dict[str, Any]]
    results: list[Result] = field(default_factory=list)

    def pairs(self, own: str = OWN) -> list[tuple[list[float], list[float]]]:
        """Rounds of the best peer and of ours, of each network that both ran."""
        return [pair for r in self.results if (pair := r.pair_with_best(own)) is not None]

    def best_over_ours(self, own: str = OWN) -> Estimate | None:
        """Geometric mean of best peer ÷ ours over those networks."""
        pairs = self.pairs(own)
        return geometric_mean(pairs) if pairs else None

    def to_json(self) -> dict[str, Any]:
        """The record, with the ratios that follow from it for whoever reads the file."""
        estimate = self.best_over_ours()
        return {
            "format": FORMAT,
            "version": VERSION,
            **asdict(self),
            "ratios": {r.model: _ratios(r) for r in self.results},
            "best_peer_over_ours": None if estimate is None else asdict(estimate),
        }


def from_json(data: dict[str, Any]) -> Comparison:
    """The inverse of :meth:`Comparison.to_json`.

    Raises
    ------
    ValueError
        When it is no such record.
    """
    given = fields_of(Comparison, data, FORMAT, VERSION)
    results = [
        Result(**{**r, "entries": {name: Entry(**e) for name, e in r["entries"].items()}})
        for r in given.pop("results")
    ]
    return Comparison(**given, results=results)


def _ratios(result: Result) -> dict[str, Any]:
    """Each entry ÷ ours, and which of the others is the best."""
    estimates = {name: result.over_ours(name) for name in result.entries if name != OWN}
    known = {name: asdict(e) for name, e in estimates.items() if e is not None}
    return {"best_peer": result.best_peer(), "over_ours": known}
