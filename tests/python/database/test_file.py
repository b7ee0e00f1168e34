# SPDX-License-Identifier: Apache-2.0
"""The database of measurements as a file: what it keeps, for whom, and what it refuses."""

from __future__ import annotations

import json
import math
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.database import BEFORE, ELSEWHERE, HERE, add_many, fork, key, wait_for
from tvm_ios import DatabaseError
from tvm_ios.cli.main import main
from tvm_ios.database import MeasurementDatabase
from tvm_ios.database.digest import digest
from tvm_ios.database.row import from_line, to_line


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.sqlite3"


def _filled(path: Path, stages: int = 200) -> Path:
    with closing(MeasurementDatabase(path)) as database:
        for i in range(stages):
            database.add(HERE, key(i), f"stage {i}", {"tiles": [1e-3 + i, 2e-3], "bands": [3e-3]})
    return path


def test_samples_add_up(path: Path) -> None:
    with closing(MeasurementDatabase(path)) as database:
        database.add(HERE, key("a"), "conv", {"tiles": [3e-4]})
        database.add(HERE, key("a"), "conv", {"tiles": [1e-4], "bands": [2e-4]}, refined=True)
        database.add(HERE, key("a"), "conv", {"bands": [5e-4]})
        found = database.find(HERE, [key("a"), key("b")])
    (row,) = found.values()
    assert row.samples == {"tiles": [3e-4, 1e-4], "bands": [2e-4, 5e-4]}
    assert row.refined
    assert (row.key, row.stage, row.device) == (key("a"), "conv", HERE)


def test_a_failure_outlasts_successes(path: Path) -> None:
    for tiles in ([3e-4], [], [1e-4]):
        with closing(MeasurementDatabase(path)) as database:
            database.add(HERE, key("a"), "conv", {"tiles": tiles, "bands": [2e-4]})
    with closing(MeasurementDatabase(path)) as database:
        (row,) = database.rows()
    assert row.samples == {"tiles": [], "bands": [2e-4] * 3}


def test_what_is_no_latency_is_never_stored(path: Path) -> None:
    bad = [math.nan, 0.0, -1.0, math.inf, -math.inf]
    with closing(MeasurementDatabase(path)) as database:
        database.add(HERE, key("a"), "conv", {"tiles": [*bad, 1e-4], "groups": bad})
        database.add(HERE, key("b"), "conv", {"tiles": bad})
        assert [row.samples for row in database.rows()] == [{"tiles": [1e-4]}]


def test_each_device_and_version_has_its_own(path: Path) -> None:
    with closing(MeasurementDatabase(path)) as database:
        for i, device in enumerate((HERE, ELSEWHERE, BEFORE)):
            database.add(device, key("a"), "conv", {"tiles": [1.0 + i]})
        found = [database.find(d, [key("a")]) for d in (HERE, ELSEWHERE, BEFORE)]
    assert [f[key("a")].samples for f in found] == [{"tiles": [1.0 + i]} for i in range(3)]


def test_many_keys_at_once(path: Path) -> None:
    _filled(path, 1100)
    with closing(MeasurementDatabase(path)) as database:
        assert len(database.find(HERE, map(key, range(1200)))) == 1100


def test_digests_tell_apart_what_reads_alike() -> None:
    keys = [1, 1.0, True, "1", (1,), ((1,),), ("1", "1"), ('1","1',), None, "None", (), 0.1 + 0.2]
    assert len({digest(k) for k in keys}) == len(keys)
    assert digest((1, "a", 0.5)) == digest((1, "a", 0.5))


def test_digests_tell_apart_classes_and_what_they_hold() -> None:
    @dataclass
    class One:
        first: object
        second: object = 0

    @dataclass
    class Other:
        first: object
        second: object = 0

    keys = [One(1), One(2), One(0, 1), One(One(1)), One(Other(1)), Other(1), (1, 0)]
    assert len({digest(k) for k in keys}) == len(keys)
    assert digest(One(One(1))) == digest(One(One(1)))


def test_killed_while_writing(path: Path) -> None:
    process, counter = fork(add_many, path, "one", 10**6)
    wait_for(lambda: counter.value >= 20)
    process.kill()
    process.join(60)
    with closing(MeasurementDatabase(path)) as database:
        rows = list(database.rows())
        assert len(rows) >= counter.value
        assert all(len(row.samples["tiles"]) == 1 for row in rows)
        database.add(HERE, key("after"), "conv", {"tiles": [1.0]})
    assert os.listdir(path.parent) == [path.name]


def test_processes_write_at_once(path: Path) -> None:
    processes = [fork(add_many, path, name, 200)[0] for name in ("one", "two")]
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    with closing(MeasurementDatabase(path)) as database:
        counts = [len(row.samples["tiles"]) for row in database.rows()]
    assert sorted(counts) == [1] * 200 + [2] * 100


def test_two_connections_read_what_the_other_wrote(path: Path) -> None:
    with closing(MeasurementDatabase(path)) as one, closing(MeasurementDatabase(path)) as two:
        one.add(HERE, key("a"), "conv", {"tiles": [1.0]})
        assert key("a") in two.find(HERE, [key("a")])
        two.add(HERE, key("a"), "conv", {"tiles": [2.0]})
        assert one.find(HERE, [key("a")])[key("a")].samples == {"tiles": [1.0, 2.0]}


def test_an_empty_file_becomes_a_database(path: Path) -> None:
    path.touch()
    assert list(MeasurementDatabase(_filled(path, 1)).rows())


def _text(path: Path) -> None:
    path.write_text("notes of somebody\n" * 20)


def _foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE cookies (name TEXT)")


def _foreign_with_a_log(path: Path) -> None:
    """A database that another program was killed with."""
    with closing(sqlite3.connect(path.with_suffix(".origin"))) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE cookies (name TEXT)")
        connection.commit()
        for suffix in ("", "-wal"):
            shutil.copy(f"{path.with_suffix('.origin')}{suffix}", f"{path}{suffix}")


def _newer(path: Path) -> None:
    with closing(sqlite3.connect(_filled(path))) as connection:
        connection.execute("PRAGMA user_version = 99")


def _other_tables(path: Path) -> None:
    with closing(sqlite3.connect(_filled(path))) as connection:
        connection.execute("CREATE TABLE cookies (name TEXT)")


def _damaged(path: Path) -> None:
    content = bytearray(_filled(path).read_bytes())
    content[len(content) // 2 : len(content) // 2 + 512] = b"\xff" * 512
    path.write_bytes(content)


def _damaged_with_a_log(path: Path) -> None:
    """A damaged database whose last user was killed."""
    origin = _filled(path.with_suffix(".origin"))
    with closing(MeasurementDatabase(origin)) as database:
        database.add(HERE, key("late"), "conv", {"tiles": [1.0]})
        for suffix in ("", "-wal"):
            shutil.copy(f"{origin}{suffix}", f"{path}{suffix}")
    content = bytearray(path.read_bytes())
    content[4096 * 5 :] = b"\xff" * (len(content) - 4096 * 5)
    path.write_bytes(content)


def _cut_off(path: Path) -> None:
    content = _filled(path).read_bytes()
    path.write_bytes(content[: len(content) // 2])


REFUSED = {
    "text": (_text, "not a measurement database"),
    "foreign": (_foreign, "not a measurement database"),
    "foreign with a log": (_foreign_with_a_log, "not a measurement database"),
    "newer": (_newer, "version 99"),
    "other tables": (_other_tables, "expected tables"),
    "damaged": (_damaged, "damaged"),
    "damaged with a log": (_damaged_with_a_log, "damaged"),
    "cut off": (_cut_off, "damaged"),
    "a directory": (Path.mkdir, "is a directory"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_and_untouched(path: Path, case: str) -> None:
    write, message = REFUSED[case]
    write(path)
    before = _contents(path)
    with pytest.raises(DatabaseError, match=message) as error:
        MeasurementDatabase(path)
    assert str(error.value).count(".") - str(error.value).count(".sqlite3") == 1  # a sentence
    assert _contents(path) == before


def _contents(path: Path) -> dict[str, bytes]:
    """What every file beside ``path`` holds, but for SQLite's index of a log."""
    files = [p for p in path.parent.iterdir() if p.is_file() and not p.name.endswith("-shm")]
    return {p.name: p.read_bytes() for p in files}


def test_missing(path: Path) -> None:
    with pytest.raises(DatabaseError, match="There is no database"):
        MeasurementDatabase(path, create=False)
    with pytest.raises(DatabaseError, match="There is no directory"):
        MeasurementDatabase(path / "deeper" / "m.sqlite3")
    assert os.listdir(path.parent) == []


def _closed(path: Path) -> None:
    _filled(path, 3)


def _without_a_log(path: Path) -> None:
    """As on a file system that other machines write to."""
    _filled(path, 3)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")


def _with_a_left_log(path: Path) -> None:
    """Its last user was killed."""
    open_one = path.with_name("open.sqlite3")
    with closing(MeasurementDatabase(open_one)) as database:
        for i in range(3):
            database.add(HERE, key(i), "conv", {"tiles": [1.0]})
        for suffix in ("", "-wal"):
            shutil.copy(f"{open_one}{suffix}", f"{path}{suffix}")
    open_one.unlink()


@pytest.mark.parametrize("write", [_closed, _without_a_log, _with_a_left_log])
def test_what_is_looked_into_stays_as_it_is(path: Path, write: Callable[[Path], None]) -> None:
    write(path)
    before, changed = _contents(path), path.stat().st_mtime_ns
    with closing(MeasurementDatabase(path, create=False)) as database:
        assert len(list(database.rows())) == 3
        with pytest.raises(DatabaseError, match="cannot be used"):
            database.add(HERE, key("new"), "conv", {"tiles": [1.0]})
    for command in ("info", "export"):
        assert main(["db", command, str(path)]) == 0
    assert _contents(path) == before
    assert path.stat().st_mtime_ns == changed


def test_an_empty_file_is_no_database_to_look_into(path: Path) -> None:
    path.touch()
    with pytest.raises(DatabaseError, match="There is no database"):
        MeasurementDatabase(path, create=False)
    assert _contents(path) == {path.name: b""}


def test_lines_hold_all_of_a_row(path: Path, tmp_path: Path) -> None:
    with closing(MeasurementDatabase(_filled(path, 3))) as database:
        database.add(ELSEWHERE, key("a"), "conv → max | conv", {"groups": [1e-5]}, refined=True)
        rows = list(database.rows())
    copies = [from_line(to_line(row), "a line") for row in rows]
    assert copies == rows
    with closing(MeasurementDatabase(tmp_path / "copy.sqlite3")) as database:
        assert database.insert(copies) == 4
        assert database.insert(copies) == 0
        assert sorted(database.rows(), key=to_line) == sorted(rows, key=to_line)


STRANGE: dict[str, tuple[str, object]] = {
    "a far time": ("measured", 1e300),
    "no time": ("measured", "today"),
    "no samples": ("samples", "3"),
    "no JSON": ("samples", "{"),
    "nested samples": ("samples", "[" * 100_000),
    "bytes": ("samples", b"\xff"),
    "features": ("features", '["a"]'),
}


@pytest.mark.parametrize("case", STRANGE)
def test_a_row_that_cannot_be_read_costs_only_itself(
    case: str, path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is left out, said so, and written over when its stage is measured again."""
    column, value = STRANGE[case]
    _filled(path, 3)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE stage SET {column} = ? WHERE key = ?", [value, key(1)])
    with closing(MeasurementDatabase(path)) as database:
        assert set(database.find(HERE, [key(i) for i in range(3)])) == {key(0), key(2)}
        assert len(list(database.rows())) == 2
        assert "a row that cannot be read" in caplog.text
        assert main(["db", "info", "--json", str(path)]) == 0
        (device,) = json.loads(capsys.readouterr().out)["devices"]
        assert device["stages"] == 2
        database.add(HERE, key(1), "stage 1", {"tiles": [5e-3]})
        expected = {"tiles": [5e-3]}
        if column != "features":  # which no measurement changes
            assert database.find(HERE, [key(1)])[key(1)].samples == expected


def test_a_database_that_is_closed(path: Path) -> None:
    database = MeasurementDatabase(_filled(path, 1))
    database.close()
    with pytest.raises(DatabaseError, match="is closed; open it again"):
        list(database.rows())


EDITS: dict[str, Callable[[dict], object]] = {
    "version": lambda d: d.update(version=99),
    "cpu": lambda d: d.pop("cpu"),
    "threads": lambda d: d.update(threads=10**30),
    "no threads": lambda d: d.update(threads=0),
    "threads that are true": lambda d: d.update(threads=True),
    "half a thread": lambda d: d.update(threads=0.5),
    "no features": lambda d: d.update(features=[]),
    "true features": lambda d: d.update(features=[True]),
    "features in words": lambda d: d.update(features="1"),
    "key": lambda d: d.update(key="a"),
    "stage": lambda d: d.update(stage="\ud800"),
    "refined": lambda d: d.update(refined=1),
    "measured": lambda d: d.update(measured="today"),
    "measured in the year 10000": lambda d: d.update(measured=253402300800.0),
    "no samples": lambda d: d.update(samples={}),
    "samples": lambda d: d["samples"].update(tiles=[0.0]),
    "large": lambda d: d["samples"].update(tiles=[10**400]),
    "division": lambda d: d["samples"].update({"by warps": [1.0]}),
}


@pytest.mark.parametrize("case", EDITS)
def test_lines_that_are_none(path: Path, case: str) -> None:
    with closing(MeasurementDatabase(_filled(path, 1))) as database:
        (row,) = database.rows()
        data = json.loads(to_line(row))
        EDITS[case](data)
        other, edited = to_line(row).replace(key(0), key(1)), json.dumps(data)
        lines = (from_line(text, "Line 2 of lines") for text in (other, edited))
        with pytest.raises(DatabaseError, match="Line 2 of lines"):
            database.insert(lines)
        assert list(database.rows()) == [row]


def test_prune(path: Path) -> None:
    with closing(MeasurementDatabase(path)) as database:
        for device in (HERE, ELSEWHERE, BEFORE):
            database.add(device, key("a"), "conv", {"tiles": [1.0]})
        ancient = from_line(to_line(next(database.rows())).replace(key("a"), key("b")), "a line")
        database.insert([type(ancient)(**{**vars(ancient), "measured": 1.0})])
        assert database.delete(lambda device: not device.is_this_machine, 0.0) == 1
        assert database.delete(lambda device: not device.is_this_version, 0.0) == 1
        assert [row.device for row in database.rows()] == [HERE, HERE]
        assert database.delete(lambda device: False, 2.0) == 1
        assert [row.key for row in database.rows()] == [key("a")]
        assert database.delete(lambda device: True, 0.0) == 1
        assert list(database.rows()) == []


def test_pruning_makes_the_file_smaller(path: Path) -> None:
    size = _filled(path, 2000).stat().st_size
    with closing(MeasurementDatabase(path)) as database:
        assert database.delete(lambda device: True, 0.0) == 2000
    assert path.stat().st_size < size / 2
