# SPDX-License-Identifier: Apache-2.0
"""A record as Markdown: ours beside the better of the others, condition by condition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, geometric_mean

import markdown
from busy_machine.conditions import CONDITIONS, QUIET
from busy_machine.networks import NETWORKS, companion
from busy_machine.record import Cell, Record
from busy_machine.runtimes import OWN, RUNTIMES, TITLES

_NONE = "–"
MEDIAN, P95, P99 = "median_ms", "p95_ms", "p99_ms"
_STATISTICS = {MEDIAN: "median", P95: "95th percentile", P99: "99th percentile"}


@dataclass(frozen=True)
class Table:
    """The cells that have figures, by what they are about."""

    cells: dict[tuple[str, str, str], Cell]

    @classmethod
    def of(cls, cells: Iterable[Cell]) -> Table:
        return cls({cell.key: cell for cell in cells if cell.failure is None})

    @property
    def networks(self) -> list[str]:
        """Names, in the order of the benchmark."""
        found = {network for network, _, _ in self.cells}
        return [name for name in NETWORKS if name in found]

    @property
    def conditions(self) -> list[str]:
        """Names, in the order of the benchmark."""
        found = {condition for _, condition, _ in self.cells}
        return [name for name in CONDITIONS if name in found]

    def best(
        self, network: str, condition: str, titles: Sequence[str], by: str = MEDIAN
    ) -> Cell | None:
        """Return the cell with the least of a statistic, of systems by their titles."""
        keys = [(network, condition, n) for n, r in RUNTIMES.items() if r.title in titles]
        found = [self.cells[key] for key in keys if key in self.cells]
        return min(found, key=lambda cell: getattr(cell, by), default=None)

    def ratio(self, network: str, condition: str, statistic: str) -> float | None:
        """Return ours divided by the better of the others: below 1, ours is faster."""
        own = self.best(network, condition, [OWN], statistic)
        other = self.best(network, condition, [t for t in TITLES if t != OWN], statistic)
        if own is None or other is None:
            return None
        ratio: float = getattr(own, statistic) / getattr(other, statistic)
        return ratio

    def ratios(self, condition: str, statistic: str) -> dict[str, float]:
        """Return :meth:`ratio` of each network that has one."""
        found = {name: self.ratio(name, condition, statistic) for name in self.networks}
        return {name: ratio for name, ratio in found.items() if ratio is not None}

    def elsewhere(self, condition: str) -> float | None:
        """Return how many cores other processes used meanwhile, on average."""
        cells = [cell for cell in self.cells.values() if cell.condition == condition]
        known = [cell.elsewhere for cell in cells if cell.elsewhere is not None]
        return fmean(known) if known else None

    def slowdown(self, condition: str) -> float | None:
        """Return how much longer our median calls take than on the quiet machine.

        It is the geometric mean over networks.
        """
        ratios = []
        for network in self.networks:
            cell = self.cells.get((network, condition, OWN))
            quiet = self.cells.get((network, QUIET, OWN))
            if cell and quiet and cell.median_ms and quiet.median_ms:
                ratios.append(cell.median_ms / quiet.median_ms)
        return _mean(ratios)

    def cpu_growth(self, condition: str, title: str) -> float | None:
        """Return how much more processor time calls take than on the quiet machine.

        It is the geometric mean over networks, of the setting with the best median under this
        condition.
        """
        best = (self.best(network, condition, [title]) for network in self.networks)
        ratios = [self._cpu_ratio(cell) for cell in best if cell is not None]
        return _mean([ratio for ratio in ratios if ratio is not None])

    def _cpu_ratio(self, cell: Cell) -> float | None:
        """What all calls took, over what as many of the same networks take when it is quiet."""
        counts = {cell.network: cell.calls}
        if cell.others:
            counts[companion(cell.network)] = cell.others
        quiet = [self.cells.get((name, QUIET, cell.runtime)) for name in counts]
        if cell.cpu_ms is None or not all(c is not None and c.cpu_ms for c in quiet):
            return None
        expected = sum(
            count * (c.cpu_ms or 0) for count, c in zip(counts.values(), quiet, strict=True) if c
        )
        return cell.cpu_ms * (cell.calls + cell.others) / expected


def render(record: Record) -> str:
    """Return what was measured on, the means, each network's ratios, and what failed."""
    table = Table.of(record.cells)
    parts = [_heading(record), _means(table), _quiet(table)]
    parts += [_ratios(table, statistic) for statistic in (MEDIAN, P95)]
    return "\n\n".join(filter(None, [*parts, _failures(record.cells)])) + "\n"


def _heading(record: Record) -> str:
    run = record.runs[-1]
    versions = (", ".join(f"{n} {v}" for n, v in run.versions.items()) for run in record.runs)
    ways = sorted({cell.way for cell in record.cells if cell.way})
    quota = f" Quota by {', '.join(ways)}." if ways else ""
    search = "with" if run.settings["search"] else "without"
    return (
        f"{run.machine['cpu']}, {run.machine['cores']} cores, "
        f"{run.threads} thread{'s' if run.threads > 1 else ''}, batch 1, "
        f"fp32, {run.date[:10]}. Ours {search} a search. {run.settings['seconds']:g} s a cell in "
        f"turns of {run.settings['slice_s']:g} s.{quota} {'; '.join(dict.fromkeys(versions))}."
    )


def _means(table: Table) -> str:
    """A row for each condition: geometric means over networks, and the worst of these."""
    header = ["condition", "networks", "cores of others"]
    for statistic in (MEDIAN, P95):
        header += [f"{_STATISTICS[statistic]}, ours ÷ better", "worst"]
    header += [f"{_STATISTICS[P99]}, ours ÷ better", "median ÷ quiet, ours"]
    header += [f"processor time ÷ quiet, {title}" for title in TITLES]
    return markdown.table(header, [_mean_row(table, name) for name in table.conditions])


def _mean_row(table: Table, condition: str) -> list[str]:
    row = [CONDITIONS[condition].title, str(len(table.ratios(condition, MEDIAN)))]
    row.append(_number(table.elsewhere(condition)))
    for statistic in (MEDIAN, P95):
        ratios = table.ratios(condition, statistic)
        worst = max(ratios, key=ratios.__getitem__, default=None)
        row.append(_number(_mean(list(ratios.values()))))
        row.append(_NONE if worst is None else f"{worst} {ratios[worst]:.2f}")
    row.append(_number(_mean(list(table.ratios(condition, P99).values()))))
    row.append(_number(table.slowdown(condition)))
    return row + [_number(table.cpu_growth(condition, title)) for title in TITLES]


def _quiet(table: Table) -> str:
    """Latencies and processor time on the quiet machine."""
    if QUIET not in table.conditions:
        return ""
    header = ["quiet, ms"]
    for title in TITLES:
        header += [f"{title} median", "95th", "99th", "processor"]
    rows = []
    for network in table.networks:
        row = [network]
        for title in TITLES:
            cell = table.best(network, QUIET, [title])
            values = [None] * 4 if cell is None else [*_latencies(cell), cell.cpu_ms]
            row += [_NONE if value is None else f"{value:#.3g}" for value in values]
        rows.append(row)
    return markdown.table(header, rows)


def _latencies(cell: Cell) -> list[float | None]:
    return [getattr(cell, statistic) for statistic in _STATISTICS]


def _ratios(table: Table, statistic: str) -> str:
    header = [f"{_STATISTICS[statistic]}, ours ÷ better"]
    header += [CONDITIONS[name].title for name in table.conditions]
    rows = [
        [n, *(_number(table.ratio(n, condition, statistic)) for condition in table.conditions)]
        for n in table.networks
    ]
    return markdown.table(header, rows)


def _failures(cells: Sequence[Cell]) -> str:
    lines = [f"- {c.runtime} on {c.network}, {c.condition}: {c.failure}" for c in cells]
    return "\n".join(line for line, c in zip(lines, cells, strict=True) if c.failure)


def _mean(values: Sequence[float]) -> float | None:
    return geometric_mean(values) if values else None


def _number(value: float | None) -> str:
    return _NONE if value is None else f"{value:.2f}"
