# SPDX-License-Identifier: Apache-2.0
"""What sub-commands print, and the schedules that they write."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from ..schedule.schedule import Schedule
from ..support.folders import naming

_WIDE = 160  # columns, where the output is no terminal and nobody is to cut it
_COMPARED = ("launched", "sequential", "greedy", "scheduled")
_ORDER = (*_COMPARED, "found")
_WORDS = {"launched": "without a CUDA graph"}


class _Console(Console):
    """A console that leaves it to the caller what to do when nobody reads any more."""

    def on_broken_pipe(self) -> None:
        """Raise the error again; rich would end the process."""
        raise


def console(file: TextIO | None = None) -> Console:
    """Standard output, or a file, for tables and text."""
    file = file or sys.stdout
    width = None if file.isatty() else _WIDE
    return _Console(file=file, width=width, highlight=False, markup=False)


def print_json(value: Mapping[str, object], file: TextIO | None = None) -> None:
    print(json.dumps(value, indent=1), file=file)


def write_schedule(path: Path, schedule: Schedule) -> None:
    """Write a schedule as JSON; an error names the file, also when the disk is full."""
    with naming(path):
        path.write_text(schedule.to_json())


def times(seconds: Mapping[str, float]) -> dict[str, float]:
    """Latencies by name as ``NAME_ms``, to the nanosecond."""
    return {f"{name}_ms": round(1e3 * seconds[name], 6) for name in _ORDER if name in seconds}


def speedup(seconds: Mapping[str, float], name: str) -> float | None:
    """Return how many times faster ``name`` is than the sequential schedule; None if unknown."""
    baseline, own = seconds.get("sequential"), seconds.get(name)
    return baseline / own if baseline and own else None


def interval(schedule: Schedule) -> dict[str, float] | None:
    """Return what is known of the speed-up of whole models, and how surely; None if nothing."""
    return None if schedule.speedup is None else asdict(schedule.speedup)


def comparison(seconds: Mapping[str, float], *, factors: bool = True) -> str:
    """Return a line ``sequential 4.0 ms → greedy 3.6 ms (1.11x) → scheduled 3.4 ms (1.18x)``.

    Without ``factors`` it has the times only, as where nothing could be told from them.
    """
    parts = []
    for name in _COMPARED:
        if name in seconds:
            gain = speedup(seconds, name) if factors and name != "sequential" else None
            suffix = "" if gain is None else f" ({gain:.2f}x)"
            parts.append(f"{_WORDS.get(name, name)} {1e3 * seconds[name]:.3f} ms{suffix}")
    return " → ".join(parts)


def specialisation(schedules: Sequence[Schedule]) -> Table:
    """Return a table of schedules by the batch sizes that they run at (IOS, section 6.3)."""
    sizes = sorted({int(size) for schedule in schedules for size in schedule.at_batch})
    result = table("made for", "stages", *(f"ms at {size}" for size in sizes), left=("made for",))
    best = {size: min(s.at_batch.get(str(size), math.inf) for s in schedules) for size in sizes}
    for schedule in schedules:
        cells = []
        for size in sizes:
            seconds = schedule.at_batch.get(str(size))
            mark = " *" if seconds == best[size] else "  "
            cells.append("-" if seconds is None else f"{1e3 * seconds:.3f}{mark}")
        made_for = "-" if schedule.batch is None else f"batch {schedule.batch}"
        result.add_row(made_for, str(len(schedule.stages)), *cells)
    return result


def table(*headers: str, left: Sequence[str] = ()) -> Table:
    """Return an empty table; columns are right-aligned except those in ``left``."""
    result = Table(box=SIMPLE_HEAD)
    for header in headers:
        result.add_column(header, justify="left" if header in left else "right")
    return result
