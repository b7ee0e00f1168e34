# SPDX-License-Identifier: Apache-2.0
"""``--database`` and ``tvm-ios db``."""

from __future__ import annotations

import io
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from support.cli import Compiled, assert_one_sentence
from support.database import BEFORE, ELSEWHERE, HERE, key
from tvm_ios.cli.main import main
from tvm_ios.database import MeasurementDatabase


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with a row of each of three devices."""
    path = tmp_path / "m.sqlite3"
    with closing(MeasurementDatabase(path)) as database:
        for device in (HERE, ELSEWHERE, BEFORE):
            database.add(device, key("a"), "conv → max", {"tiles": [1e-3, 2e-3], "bands": [3e-3]})
    return path


def _json(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict:
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_info(path: Path, capsys) -> None:
    result = _json(capsys, "db", "info", path)
    assert (result["stages"], result["samples"]) == (3, 9)
    assert result["bytes"] == path.stat().st_size
    assert [d["in_use"] for d in result["devices"]].count(True) == 1
    assert {d["cpu"] for d in result["devices"]} == {HERE.cpu, ELSEWHERE.cpu}
    assert main(["db", "info", str(path)]) == 0
    text = capsys.readouterr().out
    assert "3 stages, 9 samples" in text
    # A long name takes several lines of its cell.
    assert {*HERE.cpu.split(), BEFORE.tvm_ios} <= set(text.split())


def test_export_and_import(path: Path, tmp_path: Path, capsys, monkeypatch) -> None:
    assert main(["db", "export", str(path)]) == 0
    lines = capsys.readouterr().out
    assert [json.loads(line)["key"] for line in lines.splitlines()] == [key("a")] * 3
    file, copy = tmp_path / "lines.jsonl", tmp_path / "copy.sqlite3"
    assert _json(capsys, "db", "export", path, "-o", file) == {"stages": 3}
    assert file.read_text() == lines
    assert _json(capsys, "db", "import", copy, "-i", file) == {"stages": 3, "added": 3}
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    assert _json(capsys, "db", "import", copy) == {"stages": 3, "added": 0}
    assert main(["db", "export", str(copy)]) == 0
    assert capsys.readouterr().out == lines


def test_import_into_the_usual_database(path: Path, tmp_path: Path, caches: Path, capsys) -> None:
    file = tmp_path / "lines.jsonl"
    _json(capsys, "db", "export", path, "-o", file)
    assert _json(capsys, "db", "import", "-i", file)["added"] == 3
    assert _json(capsys, "db", "info")["database"] == str(caches / "tvm-ios/measurements-2.sqlite3")


def test_prune(path: Path, capsys) -> None:
    assert _json(capsys, "db", "prune", path, "--older-than", 1) == {"deleted": 0}
    assert _json(capsys, "db", "prune", path, "--other-versions") == {"deleted": 1}
    assert _json(capsys, "db", "prune", path, "--other-devices") == {"deleted": 1}
    assert [d["in_use"] for d in _json(capsys, "db", "info", path)["devices"]] == [True]
    assert main(["db", "prune", str(path), "--older-than", "0"]) == 0
    assert "1 stages deleted" in capsys.readouterr().out


def test_compile_measures_once(compiled: Compiled, caches: Path, tmp_path: Path, capsys) -> None:
    usual, named = caches / "tvm-ios/measurements-2.sqlite3", tmp_path / "named.sqlite3"
    command = ["compile", compiled / "model.onnx", "-o", tmp_path / "m.so", "--threads", 1]
    command += ["--pass-config", "max_group_size=1", "--no-winograd"]
    assert _json(capsys, *command, "--database", named)["measurements"] > 0
    assert not usual.exists()
    usual.parent.mkdir()
    os.replace(named, usual)
    assert _json(capsys, *command)["measurements"] == 0


def test_no_database(compiled: Compiled, caches: Path, tmp_path: Path, capsys) -> None:
    command = ["compile", compiled / "model.onnx", "-o", tmp_path / "m.so", "--no-search"]
    _json(capsys, *command, "--no-database")
    assert os.listdir(caches) == []


def test_a_cache_that_cannot_be_made_costs_nothing(
    compiled: Compiled, tmp_path: Path, capsys, caplog, monkeypatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    _json(capsys, "compile", compiled / "model.onnx", "-o", tmp_path / "m.so", "--no-search")
    (warning,) = caplog.messages
    assert warning.startswith("No measurements are kept: ")


LINE = '{"version": 2}\n'

BAD_INPUT = {
    "no action": (["db"], "ACTION"),
    "no database": (["db", "info", "none.sqlite3"], "There is no database none.sqlite3"),
    "no usual database": (["db", "info"], "There is no database"),
    "text": (["db", "info", "lines.jsonl"], "not a measurement database"),
    "foreign": (["db", "export", "foreign.sqlite3"], "not a measurement database"),
    "a directory": (["db", "info", "."], "is a directory"),
    "no directory": (["db", "export", "m.sqlite3", "-o", "none/x"], "none/x"),
    "no lines": (["db", "import", "m.sqlite3", "-i", "none.jsonl"], "none.jsonl"),
    "lines no JSON": (["db", "import", "m.sqlite3", "-i", "notes"], "Line 1 of notes"),
    "lines no text": (
        ["db", "import", "m.sqlite3", "-i", "m.sqlite3"],
        "m.sqlite3 is not a text file",
    ),
    "a line cut off": (["db", "import", "x.sqlite3", "-i", "lines.jsonl"], "'cpu' is missing"),
    "nothing to prune": (["db", "prune", "m.sqlite3"], "--other-versions"),
    "no days": (["db", "prune", "m.sqlite3", "--older-than", "x"], "--older-than"),
    "search with text": (
        ["bench", "zoo:squeezenet", "--database", "notes"],
        "not a measurement database",
    ),
    "search without a directory": (
        ["bench", "zoo:squeezenet", "--database", "none/m.sqlite3"],
        "There is no directory none",
    ),
    "a database and none": (
        ["bench", "zoo:squeezenet", "--database", "m.sqlite3", "--no-database"],
        "exclude each other",
    ),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input(path: Path, case: str, monkeypatch, capfd) -> None:
    monkeypatch.chdir(path.parent)
    Path("lines.jsonl").write_text(LINE)
    Path("notes").write_text("notes\n")
    with closing(sqlite3.connect("foreign.sqlite3")) as connection:
        connection.execute("CREATE TABLE cookies (name TEXT)")
    before = {name: Path(name).read_bytes() for name in os.listdir()}
    arguments, message = BAD_INPUT[case]
    assert main(arguments) == 4
    assert_one_sentence(capfd.readouterr(), message)
    assert {name: Path(name).read_bytes() for name in os.listdir()} == before


def test_a_user_without_a_home(
    compiled: Compiled, tmp_path: Path, monkeypatch, capsys, caplog
) -> None:
    """A search keeps nothing, and says so; what needs the file says how to name it."""

    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert main(["db", "info"]) == 4
    assert "has no home directory; name the database" in capsys.readouterr().err
    library = str(tmp_path / "m.so")
    assert main(["compile", str(compiled / "model.onnx"), "-o", library, "--no-search"]) == 0
    assert "No measurements are kept: This user has no home" in caplog.text
