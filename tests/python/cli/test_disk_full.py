# SPDX-License-Identifier: Apache-2.0
"""A disk without room: one sentence that names the file, and what was there stays as it was."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from support.cli import Compiled, assert_one_sentence, run_cli
from support.database import HERE, key
from tvm_ios.cli.main import main
from tvm_ios.database import MeasurementDatabase, Row
from tvm_ios.database.row import to_line

pytestmark = pytest.mark.slow

_SIZE = 1 << 19  # bytes of the disk

ROWS = [Row(HERE, key(number), "a stage", {"tiles": [1e-3]}, False, 1e9) for number in range(400)]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(path)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no file system can be mounted: {done.stderr.strip()}")
    yield path
    subprocess.run(["umount", "--lazy", str(path)], check=True)


def fill_up(disk: Path, room: int = 0) -> None:
    """Leave no more than ``room``."""
    with (disk / "filler").open("wb", buffering=0) as file:
        while True:
            status = os.statvfs(disk)
            free = status.f_bavail * status.f_frsize
            if free <= room:
                return
            file.write(bytes(free - room))


def contents(disk: Path) -> dict[str, bytes]:
    beside = {"filler", "d.sqlite3-wal", "d.sqlite3-shm"}
    return {path.name: path.read_bytes() for path in disk.iterdir() if path.name not in beside}


WRITING = {
    "library": ("m.so", ["compile", "model.onnx", "--no-search", "--threads", "2", "-o"]),
    "schedule": (
        "s.json",
        ["compile", "model.onnx", "--no-search", "--threads", "2", "-o", "m.so", "--schedule-out"],
    ),
    "outputs": ("out.npz", ["run", "model.so", "-o"]),
    "picture": ("s.html", ["show", "s.json", "--format", "html", "-o"]),
    "lines": ("l.jsonl", ["db", "export", "many.sqlite3", "-o"]),
    "timeline": (
        "t.json",
        ["show", "s.json", "--format", "perfetto", "--model", "model.onnx", "-o"],
    ),
}


@pytest.mark.parametrize("there", [True, False], ids=["replaced", "new"])
@pytest.mark.parametrize("what", WRITING)
def test_what_is_written(
    what: str, there: bool, disk: Path, compiled: Compiled, monkeypatch, capfd
) -> None:
    monkeypatch.chdir(compiled.directory)
    name, arguments = WRITING[what]
    if what == "lines" and not Path("many.sqlite3").exists():
        with closing(MeasurementDatabase("many.sqlite3")) as database:
            database.insert(ROWS)
    if there:
        (disk / name).write_text("old")
    fill_up(disk)
    here, before = set(os.listdir()), contents(disk)
    assert main([*arguments, str(disk / name)]) == 4
    assert_one_sentence(capfd.readouterr(), f"{disk / name}: No space left on device")
    assert contents(disk) == before
    assert set(os.listdir()) == here


def test_a_database(disk: Path, tmp_path: Path, capfd) -> None:
    """An import that does not fit adds nothing."""
    path, lines = disk / "d.sqlite3", tmp_path / "l.jsonl"
    with closing(MeasurementDatabase(path)) as database:
        database.insert(ROWS[:3])
    lines.write_text("".join(to_line(row) + "\n" for row in ROWS))
    fill_up(disk)
    assert main(["db", "import", str(path), "-i", str(lines)]) == 4
    assert_one_sentence(capfd.readouterr(), f"The database {path} cannot be")
    (disk / "filler").unlink()
    with closing(MeasurementDatabase(path)) as database:
        assert {row.key for row in database.rows()} == {row.key for row in ROWS[:3]}


def test_a_database_that_is_new(disk: Path, tmp_path: Path, capfd) -> None:
    lines = tmp_path / "l.jsonl"
    lines.write_text(to_line(ROWS[0]) + "\n")
    fill_up(disk)
    assert main(["db", "import", str(disk / "d.sqlite3"), "-i", str(lines)]) == 4
    assert_one_sentence(capfd.readouterr(), "d.sqlite3 cannot be created")
    assert contents(disk) == {}


def test_a_search_goes_on_without_its_database(
    disk: Path, tmp_path: Path, compiled: Compiled, capfd, caplog
) -> None:
    path, library = disk / "d.sqlite3", tmp_path / "m.so"
    MeasurementDatabase(path).close()
    fill_up(disk, 1 << 16)  # SQLite needs half of it to begin
    model = str(compiled / "model.onnx")
    assert main(["compile", model, "-o", str(library), "--database", str(path)]) == 0
    assert "The search continues without it." in caplog.text
    assert library.exists()


@pytest.mark.parametrize("room", [0, 1 << 18], ids=["none", "for the weights"])
def test_temporary_files(
    room: int, disk: Path, tmp_path: Path, compiled: Compiled, monkeypatch
) -> None:
    """LLVM would end the process without a word, when it writes object code there."""
    library = tmp_path / "m.so"
    library.write_text("old")
    fill_up(disk, room)
    before = contents(disk)
    monkeypatch.setenv("TMPDIR", str(disk))
    done = run_cli("compile", compiled / "model.onnx", "--no-search", "-o", library, check=False)
    assert (done.returncode, done.stdout) == (4, "")
    assert re.fullmatch(
        rf"error: {re.escape(str(disk))}\S*: No space left on device\.\n", done.stderr
    )
    assert contents(disk) == before
    assert library.read_text() == "old"
