# SPDX-License-Identifier: Apache-2.0
"""What a run of the benchmark found: a file of JSON lines, which a later run goes on with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from busy_machine.calls import Slice
from recorded import fields_of
from tvm_ios.errors import OptionError
from tvm_ios.support.files import replacing

FORMAT, VERSION = "tvm_ios.busy", 1
_PERCENTILES = (50, 95, 99)


@dataclass
class Cell:
    """One runtime with one network under one condition.

    Attributes
    ----------
    network, condition, runtime : str
        Names.
    median_ms, p95_ms, p99_ms : float or None
        Of the latencies of all calls; None where it failed.
    cpu_ms : float or None
        Processor time of a call: that of the process by the calls, of the companion, too.
    calls, others : int
        How many calls were timed, and how many of the companion there were meanwhile.
    elsewhere : float or None
        How many cores other processes used meanwhile.
    error : float or None
        The largest deviation of an output, relative to the largest value.
    way : str
        How a quota was imposed.
    failure : str or None
        Why there are no figures.
    """

    network: str
    condition: str
    runtime: str
    median_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    cpu_ms: float | None = None
    calls: int = 0
    others: int = 0
    elsewhere: float | None = None
    error: float | None = None
    way: str = ""
    failure: str | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """What the cell is about."""
        return self.network, self.condition, self.runtime

    def fill(self, found: Slice) -> None:
        """Take the figures of what was counted in all rounds."""
        values = np.percentile(found.latencies_ns, _PERCENTILES) / 1e6
        self.median_ms, self.p95_ms, self.p99_ms = map(float, values)
        self.calls, self.others = len(found.latencies_ns), found.others
        self.elsewhere = found.elsewhere_s / found.span_s
        self.cpu_ms = 1e3 * found.cpu_s / (self.calls + self.others)


@dataclass
class Run:
    """What cells were measured on and with.

    Attributes
    ----------
    date : str
    machine : dict
        See :class:`machine.Machine`.
    threads : int
    settings : dict
        Of libraries and rounds.
    versions : dict
        Of the packages, and of tvm_ios the commit.
    runtimes : dict of str to str
        How each was set up.
    """

    date: str
    machine: dict[str, Any]
    threads: int
    settings: dict[str, Any]
    versions: dict[str, str]
    runtimes: dict[str, str]

    @property
    def alike(self) -> tuple[Any, ...]:
        """What two runs must share whose cells stand in one table."""
        return json.dumps(self.machine), self.threads, json.dumps(self.settings)


@dataclass
class Record:
    """Runs on one machine, and their cells, of which the last of each kind counts."""

    runs: list[Run] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)

    def begin(self, run: Run) -> None:
        """Note a run.

        Raises
        ------
        OptionError
            When those before had another machine or other settings.
        """
        if any(before.alike != run.alike for before in self.runs):
            raise OptionError(
                "The file is of another machine, number of threads or settings; use another file."
            )
        self.runs.append(run)

    def put(self, cells: Sequence[Cell]) -> None:
        """Add cells, in the place of those that are about the same."""
        keys = {cell.key for cell in cells}
        self.cells = [cell for cell in self.cells if cell.key not in keys] + list(cells)

    def complete(self, network: str, condition: str, runtimes: Sequence[str]) -> bool:
        """Whether there are figures of all these runtimes."""
        done = {cell.key for cell in self.cells if cell.failure is None}
        return all((network, condition, runtime) in done for runtime in runtimes)

    def save(self, path: Path) -> None:
        """Write the file as a whole."""
        lines = [{"format": FORMAT, "version": VERSION, **asdict(run)} for run in self.runs]
        lines += [asdict(cell) for cell in self.cells]
        with replacing(path) as (draft,):
            draft.write_text("".join(json.dumps(line) + "\n" for line in lines))


def read(path: Path) -> Record:
    """Read what :meth:`Record.save` wrote.

    Raises
    ------
    OptionError
        When it is no such file.
    """
    record = Record()
    try:
        for line in map(json.loads, path.read_text().splitlines()):
            if "format" in line:
                record.runs.append(Run(**fields_of(Run, line, FORMAT, VERSION)))
            else:
                record.cells.append(Cell(**line))
    except (ValueError, KeyError, TypeError) as error:
        raise OptionError(f"{path} is no file of busy.py --json: {error}.") from error
    return record
