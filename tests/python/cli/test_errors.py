# SPDX-License-Identifier: Apache-2.0
"""The command line and bad input: one sentence, exit code 4, and nothing half-written."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tvm

from support.bad_input import assert_refused, part_of
from support.cli import SHAPE, Compiled, assert_one_sentence
from tvm_ios.cli.main import BROKEN_PIPE, main
from tvm_ios.errors import ModelError, TargetError
from tvm_ios.target import resolve


def _with_schedule(edit: Callable[[dict], object]) -> Callable[[Path], list[str]]:
    def write(directory: Path) -> list[str]:
        data = json.loads((directory / "s.json").read_text())
        edit(data)
        (directory / "edited.json").write_text(json.dumps(data))
        return [*COMPILE, "--threads", "2", "--schedule-in", "edited.json"]

    return write


def _inputs(**arrays: np.ndarray) -> Callable[[Path], list[str]]:
    def write(directory: Path) -> list[str]:
        np.savez(directory / "bad.npz", **arrays)
        return ["run", "model.so", "-i", "bad.npz", "-o", "m.npz"]

    return write


def _damaged_header(directory: Path) -> list[str]:
    np.savez(directory / "header.npz", image=IMAGE)
    content = (directory / "header.npz").read_bytes()
    damaged = content.replace(b"(1, 3, 24, 24)", b"(1, 3, 24, 24(")
    (directory / "header.npz").write_bytes(damaged)
    return ["run", "model.so", "-i", "header.npz"]


COMPILE = ("compile", "model.onnx", "-o", "m.so")
IMAGE = np.zeros(SHAPE, "float32")


def _records(content: str, *others: str) -> Callable[[Path], list[str]]:
    """A command with a MetaSchedule database whose files have this content."""

    def write(directory: Path) -> list[str]:
        records = directory / f"records{len(content)}"
        records.mkdir(exist_ok=True)
        for name in ("workload", "tuning_record"):
            (records / f"database_{name}.json").write_text(content)
        return [*COMPILE, *others, "--tuning-records", str(records)]

    return write


BAD_INPUT = {
    "no command": ([], "Give a command"),
    "unknown command": (["tune"], "tune"),
    "unknown option": ([*COMPILE, "--fast"], "--fast"),
    "missing argument": (["compile", "model.onnx"], "--output"),
    "missing model": (["bench", "none.onnx"], "There is no model none.onnx"),
    "a directory": (["bench", "."], "directory"),
    "unknown extension": (["bench", "in.npz"], ".onnx"),
    "unknown network": (["bench", "zoo:alexnet"], "squeezenet"),
    "unknown input": ([*COMPILE, "--input-shapes", "x:[1]"], "no input 'x'; its inputs: image"),
    "wrong rank": ([*COMPILE, "--input-shapes", "image:[1,3]"], "has 4 dimensions"),
    "fixed dimension": ([*COMPILE, "--batch", "2"], "fixes dimension 0"),
    "no shapes": ([*COMPILE, "--input-shapes", "image=1"], "not a list of shapes"),
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
    "no tuning records": ([*COMPILE, "--tuning-records", "none"], "is not a MetaSchedule database"),
    "damaged tuning records": (_records("[nothing\n"), "is damaged"),
    "tuning records for a GPU": (
        _records("", "--target", '{"kind":"cuda","arch":"sm_90"}', "--no-search"),
        "records of MetaSchedule are for CPUs",
    ),
    "two sources of a schedule": ([*COMPILE, "--no-search", "--schedule-in", "s.json"], "exclude"),
    "no library": (["compile", "model.onnx", "-o", "m.tar"], "NAME.so"),
    "no directory": (["compile", "model.onnx", "-o", "none/m.so"], "none/m.so"),
    "no schedule": ([*COMPILE, "--schedule-in", "none.json"], "none.json"),
    "schedule no JSON": (["show", "in.npz"], "not JSON"),
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
    "inputs no archive": (["run", "model.so", "-i", "s.json"], "is not an .npz"),
    "inputs with a damaged header": (_damaged_header, "header.npz is damaged"),
    "a library cut off": (
        part_of("model.so", slice(20_000), "run", "cut.so"), "cut.so is not a model that"
    ),
    "a library without its end": (
        part_of("model.so", slice(-100), "run", "end.so"), "end.so is not a model that"
    ),
    "a batch for no machine": (["bench", "zoo:squeezenet", "--batch", "9" * 30], "The batch must"),
    "sizes that do not fit together": (
        ["bench", "zoo:squeezenet", "--input-shapes", "data:[1,3,1,1]"], "does not fit into a map"
    ),
    "unknown CPU": (
        [*COMPILE, "--target", '{"kind": "llvm", "mcpu": "abacus"}'], "does not know CPU 'abacus'"
    ),
    "unknown architecture": (
        [*COMPILE, "--target", '{"kind": "llvm", "mtriple": "abacus"}'], "architecture 'abacus'"
    ),
    "target without a kind": ([*COMPILE, "--target", "{}"], '"kind" is not found'),
    "too many threads": ([*COMPILE, "--threads", "5000"], "1 to 1024 cores, not 5000"),
    "far too many threads": ([*COMPILE, "--threads", "9" * 20], "1 to 1024 cores"),
    "a number of thousands of digits": (
        [*COMPILE, "--pass-config", "max_group_size=" + "9" * 5000], "needs a whole number"
    ),
    "a GPU for a CPU": ([*COMPILE, "--no-search", "--device-id", "3"], "leave it out for a CPU"),
    "a GPU to test a CPU": (["selftest", "--device-id", "1"], "leave it out for a CPU"),
    "a GPU to run on a CPU": (["run", "model.so", "--device-id", "1"], "leave it out for a CPU"),
    "a GPU of another process": ([*COMPILE, "--isolate", "--device-id", "1"], "--device-id"),
    "a batch to draw": (["show", "s.json", "--batch", "2"], "--batch describes the model"),
    "kernels to draw": (["show", "s.json", "--cudnn"], "--cudnn describes the model"),
    "lines and an object": (["db", "export", "--json"], "give one with --output"),
    "schedule of another function": (
        _with_schedule(lambda d: d.update(function="other")), "of the function 'other'"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input(compiled: Compiled, case: str, monkeypatch, capfd) -> None:
    monkeypatch.chdir(compiled.directory)
    assert_refused(*BAD_INPUT[case], compiled, capfd)


@pytest.mark.parametrize(
    "arguments", [["show", "s.json"], ["show", "s.json", "--json"], ["zoo"]], ids=" ".join
)
def test_nobody_reads_on(compiled: Compiled, arguments: list[str], monkeypatch, capfd) -> None:
    """A command ends as by SIGPIPE, without a word."""
    monkeypatch.chdir(compiled.directory)
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", encoding="utf-8") as closed, monkeypatch.context() as patched:
        patched.setattr("sys.stdout", closed)
        assert main(arguments) == BROKEN_PIPE
    assert capfd.readouterr() == ("", "")


def test_without_onnx(compiled: Compiled, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert main(["bench", str(compiled / "model.onnx")]) == 4
    assert "pip install 'tvm-ios[onnx]'." in capsys.readouterr().err


def test_without_a_linker(compiled: Compiled, monkeypatch, capsys, tmp_path: Path) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    library = tmp_path / "m.so"
    assert main(["compile", str(compiled / "model.onnx"), "-o", str(library)]) == 4
    assert "no-such-compiler was not found" in capsys.readouterr().err
    assert not library.exists()


def test_isolation_without_a_linker(compiled: Compiled, monkeypatch, capsys) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert main(["bench", str(compiled / "model.onnx"), "--isolate"]) == 4
    assert "no-such-compiler was not found, which links libraries" in capsys.readouterr().err


def test_error_with_and_without_traceback(tmp_path: Path, capfd, caplog) -> None:
    caplog.set_level("WARNING", "tvm_ios")  # and -v's level does not outlast this test
    missing = str(tmp_path / "none.json")
    assert main(["show", missing]) == 4
    plain = capfd.readouterr()
    assert_one_sentence(plain, "none.json")
    assert main(["show", "-v", missing]) == 4
    verbose = capfd.readouterr()
    assert "Traceback" in verbose.err
    assert verbose.err.splitlines()[-1] == plain.err.strip()


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


def test_a_feature_that_llvm_does_not_know() -> None:
    for mattr in (["+abacus"], ["-abacus"], ["avx2"]):
        with pytest.raises(TargetError, match=f"no feature '{re.escape(mattr[0])}'"):
            resolve(json.dumps({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mattr": mattr}))
    known = {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mattr": ["+avx2", "-avx512f"]}
    assert list(resolve(json.dumps(known)).attrs["mattr"]) == ["+avx2", "-avx512f"]


@pytest.mark.parametrize(
    "error",
    [MemoryError("Unable to allocate 64.0 GiB"), tvm.error.InternalError("std::bad_alloc")],
    ids=["Python", "C++"],
)
def test_too_little_memory(error: Exception, monkeypatch, capsys) -> None:
    def fail(_args: object) -> None:
        raise error

    monkeypatch.setattr("tvm_ios.cli.show.run", fail)
    assert main(["show", "large.json"]) == 4
    assert_one_sentence(capsys.readouterr(), "'show large.json' needs more memory than there is")


def test_a_sentence_has_an_end_and_no_control_characters(monkeypatch, capsys) -> None:
    def fail(_args: object) -> None:
        raise ModelError("Begin \x1b[31m" + 9999 * "x" + "\udcff end")

    monkeypatch.setattr("tvm_ios.cli.show.run", fail)
    assert main(["show", "s.json"]) == 4
    said = capsys.readouterr().err
    assert said.startswith("error: Begin \\x1b[31mxxx")
    assert said.endswith("xxx\\udcff end.\n")
    assert len(said) < 1100


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
        "import sys; from tvm_ios.cli import env, main as entry; "
        "env.add_parser = lambda _: exec('raise KeyboardInterrupt'); sys.exit(entry.main([]))"
    )
    command = [sys.executable, "-m", "interrupted_command"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_output_that_nobody_reads(compiled: Compiled) -> None:
    command = f'"{sys.executable}" -m tvm_ios show "{compiled / "s.json"}" | true'
    ends = "exit ${PIPESTATUS[0]}"
    done = subprocess.run(["bash", "-c", f"{command}; {ends}"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (BROKEN_PIPE, "")


def test_version_and_help(capsys) -> None:
    for arguments in (["--version"], ["--help"], ["compile", "--help"]):
        with pytest.raises(SystemExit) as exit_status:
            main(arguments)
        assert exit_status.value.code == 0
        assert "tvm-ios" in capsys.readouterr().out
