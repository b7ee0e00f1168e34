# SPDX-License-Identifier: Apache-2.0
"""A disk without room: one sentence that names the file, and what was there stays as it was."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cli_support import Compiled, assert_one_sentence
from database_support import HERE, fill
from tvm_ios.cli.main import main
from tvm_ios.database import MeasurementDatabase

_SIZE = 1 << 19  # bytes of the disk
_ROOM = 1 << 13  # that are left of it


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


def fill_up(disk: Path) -> None:
    """Leave no more than a little room."""
    with (disk / "filler").open("wb", buffering=0) as file:
        while True:
            status = os.statvfs(disk)
            free = status.f_bavail * status.f_frsize
            if free <= _ROOM:
                return
            file.write(bytes(free - _ROOM))


def contents(disk: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in disk.iterdir() if path.name != "filler"}


WRITING = {
    "library": ("m.so", ["compile", "model.onnx", "--no-search", "--threads", "2", "-o"]),
    "schedule": (
        "s.json",
        ["compile", "model.onnx", "--no-search", "--threads", "2", "-o", "m.so", "--schedule-out"],
    ),
    "outputs": ("out.npz", ["run", "model.so", "-o"]),
    "picture": ("s.html", ["show", "s.json", "--format", "html", "-o"]),
    "lines": ("l.jsonl", ["db", "export", "many.sqlite3", "-o"]),
    "timeline": ("t.json", ["run", "model.so", "--timeline"]),
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
            fill(database, 200)
    if there:
        (disk / name).write_text("old")
    fill_up(disk)
    here, before = set(os.listdir()), contents(disk)
    assert main([*arguments, str(disk / name)]) == 4
    assert_one_sentence(capfd.readouterr(), f"{disk / name}: No space left on device")
    assert contents(disk) == before
    assert set(os.listdir()) == here
