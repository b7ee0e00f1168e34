# SPDX-License-Identifier: Apache-2.0
"""The command line and bad input: one sentence, exit code 4, and nothing half-written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tvm

from cli_support import SHAPE, Compiled, assert_one_sentence, run_cli, save_branches
from tvm_ios.cli.main import main


def _unknown_operator(directory: Path) -> list[str]:
    save_branches(directory / "strange.onnx", head="NoSuchOperator")
    return ["compile", "strange.onnx", "-o", "m.so"]


def _dynamic(directory: Path) -> list[str]:
    save_branches(directory / "dynamic.onnx", batch="N")
    return ["compile", "dynamic.onnx", "-o", "m.so"]


def _with_schedule(edit: Callable[[dict], object]) -> Callable[[Path], list[str]]:
    def write(directory: Path) -> list[str]:
        data = json.loads((directory / "s.json").read_text())
        edit(data)
        (directory / "edited.json").write_text(json.dumps(data))
        return [*COMPILE, "--threads", "2", "--schedule-in", "edited.json"]

    return write


def _file(name: str, content: bytes, *arguments: str) -> Callable[[Path], list[str]]:
    def write(directory: Path) -> list[str]:
        (directory / name).write_bytes(content)
        return list(arguments)

    return write


def _inputs(**arrays: np.ndarray) -> Callable[[Path], list[str]]:
    def write(directory: Path) -> list[str]:
        np.savez(directory / "bad.npz", **arrays)
        return ["run", "model.so", "-i", "bad.npz", "-o", "m.npz"]

    return write


COMPILE = ("compile", "model.onnx", "-o", "m.so")
IMAGE = np.zeros(SHAPE, "float32")


def _damaged_records(directory: Path) -> list[str]:
    records = directory / "records"
    records.mkdir(exist_ok=True)
    for name in ("workload", "tuning_record"):
        (records / f"database_{name}.json").write_text("[nothing\n")
    return [*COMPILE, "--tuning-records", str(records)]


BAD_INPUT = {
    "no command": ([], "Give a command"),
    "unknown command": (["tune"], "tune"),
    "unknown option": ([*COMPILE, "--fast"], "--fast"),
    "missing argument": (["compile", "model.onnx"], "--output"),
    "missing model": (["bench", "none.onnx"], "There is no model none.onnx"),
    "a directory": (["bench", "."], "directory"),
    "unknown extension": (["bench", "in.npz"], ".onnx"),
    "unknown network": (["bench", "zoo:alexnet"], "squeezenet"),
    "empty model": (_file("e.onnx", b"", "bench", "e.onnx"), "empty"),
    "corrupt model": (_file("c.onnx", b"\x80corrupt", "bench", "c.onnx"), "damaged"),
    "unknown operator": (_unknown_operator, "NoSuchOperator (strange.onnx); export the model"),
    "dynamic dimension": (_dynamic, "Dimension 0 (N) of input 'image' is dynamic"),
    "unknown input": ([*COMPILE, "--input-shapes", "x:[1]"], "no input 'x'; its inputs: image"),
    "wrong rank": ([*COMPILE, "--input-shapes", "image:[1,3]"], "has 4 dimensions"),
    "fixed dimension": ([*COMPILE, "--batch", "2"], "fixes dimension 0"),
    "no shapes": ([*COMPILE, "--input-shapes", "image=1"], "no list of shapes"),
    "unknown pass config": ([*COMPILE, "--pass-config", "r=1"], "max_num_groups, max_block_size"),
    "r below 1": ([*COMPILE, "--pass-config", "max_group_size=0"], "at least 1"),
    "s no number": ([*COMPILE, "--pass-config", "max_num_groups=x"], "whole number"),
    "unknown strategy": ([*COMPILE, "--strategies", "merge,split"], "got 'merge,split'"),
    "a strategy twice": ([*COMPILE, "--strategies", "merge,merge"], "concurrent, merge or both"),
    "no strategy": ([*COMPILE, "--strategies", ""], "concurrent, merge or both"),
    "no threads": ([*COMPILE, "--threads", "0"], "at least 1"),
    "unknown target": ([*COMPILE, "--target", "warp-drive"], "warp-drive"),
    "target of another machine": (
        [*COMPILE, "--target", '{"kind":"llvm","mtriple":"riscv64-linux-gnu"}'],
        "cannot run code for",
    ),
    "no tuning records": ([*COMPILE, "--tuning-records", "none"], "no MetaSchedule database"),
    "damaged tuning records": (_damaged_records, "is damaged"),
    "two ways to a schedule": ([*COMPILE, "--no-search", "--schedule-in", "s.json"], "at odds"),
    "no library": (["compile", "model.onnx", "-o", "m.tar"], "NAME.so"),
    "no directory": (["compile", "model.onnx", "-o", "none/m.so"], "none/m.so"),
    "no schedule": ([*COMPILE, "--schedule-in", "none.json"], "none.json"),
    "schedule no JSON": (["show", "in.npz"], "no JSON"),
    "schedule of another model": (
        ["compile", "zoo:squeezenet", "-o", "m.so", "--schedule-in", "s.json"],
        "another model",
    ),
    "schedule of another target": (
        [*COMPILE, "--threads", "1", "--schedule-in", "s.json"],
        "with 2 threads, not for",
    ),
    "schedule of another version": (_with_schedule(lambda d: d.update(version=99)), "version 99"),
    "schedule without stages": (_with_schedule(lambda d: d.pop("stages")), "'stages' is missing"),
    "operator omitted": (_with_schedule(lambda d: d["stages"].pop()), "omits operator"),
    "operator repeated": (
        _with_schedule(lambda d: d["stages"].append(d["stages"][0])),
        "repeats operator",
    ),
    "edge broken": (_with_schedule(lambda d: d["stages"].reverse()), "breaks the edge"),
    "not compiled": (["run", "in.npz"], "compile it again"),
    "no compiled model": (["run", "none.so"], "no compiled model"),
    "inputs of another name": (_inputs(x=IMAGE), "the model needs: image float32[1, 3, 24, 24]"),
    "inputs of another shape": (_inputs(image=IMAGE[0]), "the model needs float32[1, 3, 24, 24]"),
    "inputs of another type": (_inputs(image=IMAGE.astype("float64")), "is float64"),
    "inputs no archive": (["run", "model.so", "-i", "s.json"], "no .npz"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input(compiled: Compiled, case: str, monkeypatch, capfd) -> None:
    monkeypatch.chdir(compiled.directory)
    arguments, message = BAD_INPUT[case]
    arguments = arguments(compiled.directory) if callable(arguments) else arguments
    before = set(os.listdir())
    assert main(arguments) == 4
    assert_one_sentence(capfd.readouterr(), message)
    assert set(os.listdir()) == before


def test_without_onnx(compiled: Compiled, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert main(["bench", str(compiled / "model.onnx")]) == 4
    assert "pip install tvm-ios[onnx]" in capsys.readouterr().err


def test_without_a_linker(compiled: Compiled, monkeypatch, capsys, tmp_path: Path) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    library = tmp_path / "m.so"
    assert main(["compile", str(compiled / "model.onnx"), "-o", str(library)]) == 4
    assert "no-such-compiler was not found" in capsys.readouterr().err
    assert not library.exists()


def test_isolation_without_a_linker(monkeypatch, capsys) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert main(["bench", "zoo:inception_v3_small", "--isolate"]) == 4
    assert "no-such-compiler was not found, which links libraries" in capsys.readouterr().err


def test_error_with_and_without_traceback(tmp_path: Path) -> None:
    plain = run_cli("show", tmp_path / "none.json", check=False)
    assert plain.returncode == 4
    assert plain.stdout == ""
    assert plain.stderr.startswith("error: ")
    assert plain.stderr.count("\n") == 1
    verbose = run_cli("show", "-v", tmp_path / "none.json", check=False)
    assert verbose.returncode == 4
    assert "Traceback" in verbose.stderr
    assert verbose.stderr.splitlines()[-1] == plain.stderr.strip()


@pytest.mark.parametrize(
    "error",
    [
        RecursionError("maximum recursion depth exceeded"),
        OverflowError("too large"),
        KeyError("kind"),
        tvm.error.InternalError("Check failed: (a == b)\nin some file"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_that_nobody_has_foreseen(error, monkeypatch, capsys, caplog) -> None:
    """One sentence that names what was asked for; -v tells where."""
    caplog.set_level("WARNING", "tvm_ios")  # and -v's level does not outlast this test

    def fail(_args: object) -> None:
        raise error

    monkeypatch.setattr("tvm_ios.cli.show.run", fail)
    assert main(["show", "strange.json"]) == 1
    captured = capsys.readouterr()
    assert_one_sentence(captured, "'show strange.json' has failed (")
    assert type(error).__name__ in captured.err
    assert "run it with -v" in captured.err
    assert main(["show", "strange.json", "-v"]) == 1
    assert "in fail" in capsys.readouterr().err


def test_interrupted_compile_leaves_nothing(tmp_path: Path) -> None:
    arguments = ["zoo:inception_v3_small", "-o", "m.so", "--schedule-out", "s.json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "tvm_ios", "compile", *arguments],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while not os.listdir(tmp_path) and process.poll() is None:  # its drafts are there: it works
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert os.listdir(tmp_path) == []


def test_interrupt_in_code_made_from_a_string(tmp_path: Path) -> None:
    """Python would end by the signal instead of with a status, though the interrupt was caught."""
    (tmp_path / "interrupted_command.py").write_text(
        "import sys; from tvm_ios.cli import main as entry; "
        "entry._run = lambda arguments: exec('raise KeyboardInterrupt'); sys.exit(entry.main([]))"
    )
    command = [sys.executable, "-m", "interrupted_command"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_output_that_nobody_reads(compiled: Compiled) -> None:
    command = f'"{sys.executable}" -m tvm_ios show "{compiled / "s.json"}" --json | true'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stderr == ""


def test_version_and_help(capsys) -> None:
    for arguments in (["--version"], ["--help"], ["compile", "--help"]):
        with pytest.raises(SystemExit) as exit_status:
            main(arguments)
        assert exit_status.value.code == 0
        assert "tvm-ios" in capsys.readouterr().out
