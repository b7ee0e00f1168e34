# SPDX-License-Identifier: Apache-2.0
"""What is in the folder, looked at from outside: everything whole, old or new, nothing lost."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import tvm_ios
from tvm_ios.database import MeasurementDatabase, Row
from tvm_ios.database.row import from_line
from tvm_ios.schedule import Schedule

from .actions import DATABASE, Action
from .network import IMAGE

FILES = ("model.so", "schedule.json", "saved.so", "exported.jsonl", "view.html", "out.npz")
_BESIDE = ("", "-wal", "-shm", "-journal")  # of a database


@dataclass(frozen=True)
class State:
    """What a folder holds.

    Attributes
    ----------
    files : dict of str to str
        Digests of what was written, by name.
    rows : dict of str to Row
        Of the database, by key.
    """

    files: Mapping[str, str]
    rows: Mapping[str, Row]


def look(directory: Path) -> State:
    """What there is now; everything must be whole."""
    if (directory / "schedule.json").exists():
        Schedule.load(directory / "schedule.json")  # completes what was begun
    files = {name: _digest(directory / name) for name in FILES if (directory / name).exists()}
    return State(files, _rows(directory / DATABASE))


def check_change(before: State, after: State, action: Action, directory: Path) -> None:
    """Assert that an action that was killed has replaced its files or left them, all at once."""
    changed = {n for n in FILES if before.files.get(n) != after.files.get(n)}
    assert changed <= set(action.writes), f"{changed} have changed"
    assert not changed or changed == set(action.writes), f"only {changed} have changed"
    for name in changed:
        _check_new(directory / name, action)
    if "model.so" in changed:
        _check_pair(directory / "model.so", directory / "schedule.json")
    _check_rows(before.rows, after.rows, action)


def leftovers(directory: Path) -> list[str]:
    """What lies there and is nobody's."""
    known = {*FILES, *(DATABASE + end for end in _BESIDE)}
    return sorted(set(os.listdir(directory)) - known)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _rows(path: Path) -> dict[str, Row]:
    if not path.exists():
        return {}
    with closing(MeasurementDatabase(path)) as database:
        rows = {row.key + repr(row.device): row for row in database.rows()}
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    return rows


def _check_new(path: Path, action: Action) -> None:
    if path.suffix == ".so":
        answer = tvm_ios.load(path)(IMAGE)
        np.testing.assert_allclose(answer, action.answer, rtol=1e-3, atol=1e-3)
    elif path.suffix == ".json":
        Schedule.load(path)
    elif path.suffix == ".html":
        assert path.read_text().rstrip().endswith("</html>"), f"{path.name} is cut off"
    elif path.suffix == ".jsonl":
        text = path.read_text()
        assert text.endswith("\n"), f"{path.name} is cut off"
        for line in text.splitlines():
            from_line(line, path.name)
    else:
        with np.load(path) as file:
            assert all(np.isfinite(file[name]).all() for name in file.files)


def _check_pair(library: Path, schedule: Path) -> None:
    inside = tvm_ios.load(library).schedule
    beside = Schedule.load(schedule)
    assert inside == beside, "the schedule is not that of the library beside it"


def _check_rows(before: Mapping[str, Row], after: Mapping[str, Row], action: Action) -> None:
    lost = before.keys() - after.keys()
    if action.prunes:
        old = {key for key, row in before.items() if row.device.cpu == "none" and _is_old(row)}
        assert lost in (set(), old), f"{len(lost)} of {len(old)} old rows were deleted"
    else:
        assert not lost, f"{len(lost)} rows are lost"
    if action.added:
        new = {key for key, row in after.items() if row.key in action.added}
        assert len(new) in (0, len(action.added)), f"{len(new)} rows of an import are there"
    for key in before.keys() & after.keys():
        for division, samples in before[key].samples.items():
            kept = after[key].samples.get(division, [])[: len(samples)]
            assert kept == samples, f"samples of {key[:8]} are lost"


def _is_old(row: Row) -> bool:
    return row.measured < 1.2e9
