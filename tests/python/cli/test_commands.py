# SPDX-License-Identifier: Apache-2.0
"""The command line, end to end: what it writes and prints."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from support.cli import SHAPE, Compiled, relative_error, run_cli
from tvm_ios import Schedule, ScheduledStage
from tvm_ios.cli.main import main
from tvm_ios.schedule import Speedup

onnx = pytest.importorskip("onnx")

# What a user without this package does with a library; importing the package is an error in it.
WITHOUT_TVM_IOS = """
import json, sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "tvm_ios":
            raise ImportError("tvm_ios is blocked")
sys.meta_path.insert(0, Blocker())
import numpy as np, tvm
vm = tvm.relax.VirtualMachine(tvm.runtime.load_module(sys.argv[1]), tvm.cpu())
x = np.load(sys.argv[2])["image"]
np.save(sys.argv[3], vm["main"](tvm.runtime.tensor(x)).numpy())
print(json.dumps(json.loads(vm["tvm_ios_metadata"]())))
"""


def test_compile_writes_the_library_and_the_schedule(compiled: Compiled) -> None:
    assert "stages for 2 threads" in compiled.printed
    assert "scheduled" in compiled.printed
    verdict = Schedule.load(compiled / "s.json").verdict
    assert ("speed-up:" in compiled.printed) == bool(verdict)
    assert verdict in compiled.printed
    files = os.listdir(compiled.directory)
    assert {"model.so", "s.json"} <= set(files)
    assert not [name for name in files if name.startswith(".")]  # drafts
    schedule = Schedule.load(compiled / "s.json")
    assert schedule.workers == 2
    assert {"sequential", "greedy", "scheduled"} <= set(schedule.estimates)
    assert {"sequential", "scheduled"} <= set(schedule.measured)
    umask = os.umask(0)
    os.umask(umask)
    assert (compiled / "s.json").stat().st_mode & 0o777 == 0o666 & ~umask


def test_library_runs_without_this_package(compiled: Compiled, tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_TVM_IOS, compiled / "model.so", compiled / "in.npz"]
    out = tmp_path / "out.npy"
    done = subprocess.run([*command, out], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert relative_error(np.load(out), compiled.expected) < 1e-3
    metadata = json.loads(done.stdout)
    assert metadata["inputs"] == [{"name": "image", "shape": list(SHAPE), "dtype": "float32"}]
    assert metadata["outputs"] == [{"name": "output_0", "shape": [1, 48], "dtype": "float32"}]
    assert metadata["workers"] == 2


def test_run(compiled: Compiled, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    files = ["-i", compiled / "in.npz", "-o", out]
    done = run_cli(
        "run", compiled / "model.so", *files, "--print-time", "--repeat", 3, "--number", 2
    )
    for header in ("mean", "median", "max", "min", "std"):
        assert f"{header} (ms)" in done.stdout
    with np.load(out) as results:
        assert list(results) == ["output_0"]
        assert relative_error(results["output_0"], compiled.expected) < 1e-3


@pytest.mark.parametrize("mode", ["random", "ones", "zeros"])
def test_run_makes_inputs(compiled: Compiled, capsys, tmp_path: Path, mode: str) -> None:
    first, second = tmp_path / "first.npz", tmp_path / "second.npz"
    for path in (first, second):
        made = ["--fill-mode", mode, "--seed", "3", "-o", str(path)]
        assert main(["run", str(compiled / "model.so"), *made, "--json", "--print-time"]) == 0
        result = json.loads(capsys.readouterr().out)
        assert result["outputs"] == {"output_0": {"dtype": "float32", "shape": [1, 48]}}
        assert 0 < result["time_ms"]["min"] <= result["time_ms"]["median"]
    with np.load(first) as a, np.load(second) as b:
        np.testing.assert_array_equal(a["output_0"], b["output_0"])


def test_schedule_in_is_applied_as_it_is(compiled: Compiled, capsys, tmp_path: Path) -> None:
    library, copy = tmp_path / "again.so", tmp_path / "copy.json"
    given = ["--schedule-in", str(compiled / "s.json"), "--schedule-out", str(copy)]
    model = str(compiled / "model.onnx")
    arguments = ["compile", model, "-o", str(library), "--threads", "2", *given, "--json"]
    assert main(arguments) == 0
    result = json.loads(capsys.readouterr().out)
    assert Schedule.load(copy) == Schedule.load(compiled / "s.json")
    assert result["stages"] == len(Schedule.load(copy).stages)
    assert result["speedup_interval"] == Schedule.load(copy).to_dict()["speedup"]
    out = tmp_path / "out.npz"
    assert main(["run", str(library), "-i", str(compiled / "in.npz"), "-o", str(out)]) == 0
    with np.load(out) as results:
        assert relative_error(results["output_0"], compiled.expected) < 1e-3


def test_show(compiled: Compiled, capsys) -> None:
    path = str(compiled / "s.json")
    schedule = Schedule.load(path)
    assert main(["show", path]) == 0
    text = capsys.readouterr().out
    assert schedule.model[:8] in text
    assert "2 threads" in text
    assert "sequential" in text
    assert "greedy" in text
    for operator in schedule.operators:
        assert operator.name in text
    assert "saves" in text
    for stage in schedule.stages:
        assert (stage.apart is None) == (len(stage.operators) == 1)
    assert main(["show", path, "--json"]) == 0
    assert Schedule.from_dict(json.loads(capsys.readouterr().out)) == schedule


def test_show_says_when_the_sequential_schedule_was_kept(compiled: Compiled, capsys, tmp_path):
    data = json.loads((compiled / "s.json").read_text())
    data["measured"] = {"sequential": 1e-3, "scheduled": 1e-3, "found": 2e-3}
    path = tmp_path / "kept.json"
    path.write_text(json.dumps(data))
    assert main(["show", str(path)]) == 0
    assert "found took 2.000 ms" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("workers", "synchronization", "line"),
    [
        (2, "point-to-point", "a worker waits for those that compute what it reads"),
        (2, "barrier", "all workers meet between two operators that depend on each other"),
        (1, "barrier", ""),
    ],
)
def test_show_says_how_workers_wait(
    compiled: Compiled, capsys, tmp_path, workers: int, synchronization: str, line: str
) -> None:
    path = tmp_path / "how.json"
    schedule = Schedule.load(compiled / "s.json")
    replace(schedule, workers=workers, synchronization=synchronization).save(path)
    assert main(["show", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    told = [text for text in lines if "worker" in text and ("wait" in text or "meet" in text)]
    assert told == ([line] if line else [])


def test_show_says_how_sure_the_gain_is(compiled: Compiled, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    schedule = Schedule.load(compiled / "s.json")
    proven = replace(schedule, speedup=Speedup(1.0701, 1.0502, 1.0903))
    stages = tuple(ScheduledStage(((op.name,),)) for op in schedule.operators)
    kept = replace(schedule, stages=stages, speedup=Speedup(1.0, 0.95, 1.05))
    paths = ["proven.json", "kept.json", "unknown.json"]
    for path, one in zip(paths, (proven, kept, replace(schedule, speedup=None)), strict=True):
        one.save(path)
    assert main(["show", paths[0]]) == 0
    text = capsys.readouterr().out
    assert "speed-up:  1.07x, 95% interval 1.05-1.09\n" in text
    assert text.count("x) → scheduled") == 2  # estimated and measured
    assert main(["show", paths[1]]) == 0
    assert "no difference found: sequential (1.00x, 95% interval" in capsys.readouterr().out
    assert main(["show", paths[2]]) == 0
    text = capsys.readouterr().out
    assert "speed-up" not in text
    assert text.count("x) → scheduled") == 1
    assert main(["show", paths[0], "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["speedup"] == {"ratio": 1.0701, "low": 1.0502, "high": 1.0903}
    assert main(["show", *paths]) == 0
    rows = capsys.readouterr().out.splitlines()
    ends = {row.split()[0]: row.split()[-1] for row in rows if ".json" in row}
    assert ends == dict(zip(paths, ("1.07x", "none", "-"), strict=True))


def test_show_says_what_the_blocks_gave_up(compiled: Compiled, capsys, tmp_path):
    schedule = Schedule.load(compiled / "s.json")
    assert main(["show", str(compiled / "s.json")]) == 0
    assert "branches" not in capsys.readouterr().out  # the network fits into a block
    path = tmp_path / "cut.json"
    replace(schedule, cut_cost=3, partition_gap=None).save(path)
    assert main(["show", str(path)]) == 0
    assert "cuts remove 3 branches or merges, and what these would save" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "is optimal by its prices\n"),
        ({"partition_gap": None}, "by its prices, among schedules with the same cuts"),
        ({"search_gap": 0.02}, "is at most 25.0% above the optimum by its prices"),
        ({"search_gap": None}, "its distance from the optimum is unknown"),
        ({"estimates": {"found": 0.1, "scheduled": 9.0}}, "the schedule found is optimal"),
    ],
)
def test_show_says_how_far_from_the_optimum(
    compiled: Compiled, capsys, tmp_path, changes: dict[str, object], text: str
) -> None:
    schedule = replace(
        Schedule.load(compiled / "s.json"), estimates={"scheduled": 0.1}, search_gap=0.0
    )
    replace(schedule, **changes).save(tmp_path / "s.json")
    assert main(["show", str(tmp_path / "s.json")]) == 0
    assert text in capsys.readouterr().out


@contextmanager
def unlogged() -> Iterator[None]:
    """Nobody has set up logging, as in a new process."""
    logger = logging.getLogger("tvm_ios")
    level = logger.level
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logging.getLogger(), "handlers", [])
        yield
    logger.setLevel(level)


def test_bench(compiled: Compiled, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(compiled / "model.onnx")
    with unlogged():
        assert main(["bench", model, "--threads", "2", "--json", "-v"]) == 0
    printed, logged = capsys.readouterr()
    result = json.loads(printed)
    assert result["threads"] == 2
    assert result["model"] == str(compiled / "model.onnx")
    assert json.loads(result["target"])["kind"] == "llvm"
    assert min(result[f"{name}_ms"] for name in ("scheduled", "sequential", "greedy")) > 0
    assert result["speedup"] == pytest.approx(
        result["sequential_ms"] / result["scheduled_ms"], rel=1e-3
    )
    assert 1 <= result["stages"] <= result["operators"]
    assert result["measurements"] > 0
    assert result["search_s"] > 0
    interval = result["speedup_interval"]
    if interval is None:
        assert "too busy" in logged
    elif result["scheduled_ms"] < result["sequential_ms"]:
        assert 1 < interval["low"] <= interval["ratio"] <= interval["high"]
    assert result["max_rel_error"] < 1e-4
    assert result["max_abs_error"] < 1e-3
    assert "target" in logged  # -v logs


def test_bench_of_a_given_schedule(compiled: Compiled, capsys) -> None:
    schedule = compiled / "s.json"
    arguments = ["--threads", "2", "--schedule-in", str(schedule)]
    assert main(["bench", str(compiled / "model.onnx"), *arguments]) == 0
    text = capsys.readouterr().out
    assert f"in {len(Schedule.load(schedule).stages)} stages, 2 threads" in text
    for name in ("sequential", "greedy", "scheduled", "error"):
        assert name in text


def test_several_outputs_and_integers(tmp_path: Path, monkeypatch, capfd) -> None:
    monkeypatch.chdir(tmp_path)
    value, tensor, make = (
        onnx.helper.make_tensor_value_info,
        onnx.TensorProto,
        onnx.helper.make_node,
    )
    nodes = [
        make("Add", ["a/x.1", "b"], ["sum"]),
        make("Add", ["count", "count"], ["twice"]),
        make("Softmax", ["sum"], ["shares"]),
    ]
    floats = [value(name, tensor.FLOAT, [3, 4]) for name in ("a/x.1", "b")]
    count = value("count", tensor.INT64, [3])
    results = [value("shares", tensor.FLOAT, [3, 4]), value("twice", tensor.INT64, [3])]
    graph = onnx.helper.make_graph(nodes, "mixed", [*floats, count], results)
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), "mixed.onnx")
    a, b = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")
    np.savez("in.npz", **{"a/x.1": a, "b": b, "count": np.arange(3)})
    assert main(["compile", "mixed.onnx", "-o", "m.so", "--threads", "1"]) == 0
    assert main(["run", "m.so", "-i", "in.npz", "-o", "out.npz"]) == 0
    with np.load("out.npz") as results:
        assert list(results) == ["output_0", "output_1"]
        shares = np.exp(a + b) / np.exp(a + b).sum(1, keepdims=True)
        np.testing.assert_allclose(results["output_0"], shares, rtol=1e-5)
        np.testing.assert_array_equal(results["output_1"], [0, 2, 4])
