# SPDX-License-Identifier: Apache-2.0
"""The command line, end to end: what it writes, prints and answers to bad input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tvm_ios import Schedule
from tvm_ios.cli.main import main

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

SHAPE = (1, 3, 24, 24)

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


def _cli(*arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tvm_ios", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert not check or done.returncode == 0, done.stderr
    return done


def _save_branches(path: Path, batch: int | str = 1, head: str = "Relu") -> None:
    """Write a small network of three branches, with one operator of the test's choice on top."""
    random = np.random.default_rng(0)
    make, weights, nodes = onnx.helper.make_node, [], []

    def conv(name: str, source: str, channels: int, size: int) -> None:
        kernel = 0.2 * random.standard_normal((16, channels, size, size))
        weights.append(onnx.numpy_helper.from_array(kernel.astype("float32"), f"{name}.weight"))
        pads = [size // 2] * 4
        nodes.append(make("Conv", [source, f"{name}.weight"], [f"{name}.raw"], pads=pads))
        nodes.append(make("Relu", [f"{name}.raw"], [name]))

    conv("stem", "image", 3, 3)
    for size in (1, 3, 5):
        conv(f"branch{size}", "stem", 16, size)
    nodes.append(make("Concat", ["branch1", "branch3", "branch5"], ["joined"], axis=1))
    nodes.append(make("GlobalAveragePool", ["joined"], ["pooled"]))
    nodes.append(make("Flatten", ["pooled"], ["flat"]))
    nodes.append(make(head, ["flat"], ["result"]))
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "branches",
        [value("image", onnx.TensorProto.FLOAT, [batch, *SHAPE[1:]])],
        [value("result", onnx.TensorProto.FLOAT, [batch, 48])],
        weights,
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), path)


def _reference(model: Path, image: np.ndarray) -> np.ndarray:
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: image})[0]


def _relative_error(actual: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(actual - expected).max() / np.abs(expected).max())


@dataclass(frozen=True)
class Compiled:
    """A network, what ``compile`` made of it, and an input with its correct output."""

    directory: Path
    printed: str
    expected: np.ndarray

    def __truediv__(self, name: str) -> Path:
        return self.directory / name


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    directory = tmp_path_factory.mktemp("cli")
    model = directory / "model.onnx"
    _save_branches(model)
    image = np.random.default_rng(1).standard_normal(SHAPE).astype("float32")
    np.savez(directory / "in.npz", image=image)
    done = _cli(
        "compile", model, "--target", "llvm", "-o", directory / "model.so",
        "--input-shapes", "image:[1,3,24,24]", "--pass-config", "max_group_size=2",
        "--pass-config", "max_num_groups=none", "--threads", 2, "--seed", 1,
        "--schedule-out", directory / "s.json",
    )  # fmt: skip
    assert done.stderr == ""
    return Compiled(directory, done.stdout, _reference(model, image))


def test_compile_writes_the_library_and_the_schedule(compiled: Compiled) -> None:
    assert "stages for 2 threads" in compiled.printed
    assert "scheduled" in compiled.printed
    assert sorted(os.listdir(compiled.directory)) == ["in.npz", "model.onnx", "model.so", "s.json"]
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
    assert _relative_error(np.load(out), compiled.expected) < 1e-3
    metadata = json.loads(done.stdout)
    assert metadata["inputs"] == [{"name": "image", "shape": list(SHAPE), "dtype": "float32"}]
    assert metadata["outputs"] == [{"name": "output_0", "shape": [1, 48], "dtype": "float32"}]
    assert metadata["workers"] == 2


def test_run(compiled: Compiled, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    files = ["-i", compiled / "in.npz", "-o", out]
    done = _cli("run", compiled / "model.so", *files, "--print-time", "--repeat", 3, "--number", 2)
    for header in ("mean", "median", "max", "min", "std"):
        assert f"{header} (ms)" in done.stdout
    with np.load(out) as results:
        assert list(results) == ["output_0"]
        assert _relative_error(results["output_0"], compiled.expected) < 1e-3


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
    out = tmp_path / "out.npz"
    assert main(["run", str(library), "-i", str(compiled / "in.npz"), "-o", str(out)]) == 0
    with np.load(out) as results:
        assert _relative_error(results["output_0"], compiled.expected) < 1e-3


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
    assert main(["show", path, "--json"]) == 0
    assert Schedule.from_dict(json.loads(capsys.readouterr().out)) == schedule


def test_show_says_when_the_sequential_schedule_was_kept(compiled: Compiled, capsys, tmp_path):
    data = json.loads((compiled / "s.json").read_text())
    data["measured"] = {"sequential": 1e-3, "scheduled": 1e-3, "found": 2e-3}
    path = tmp_path / "kept.json"
    path.write_text(json.dumps(data))
    assert main(["show", str(path)]) == 0
    assert "found took 2.000 ms" in capsys.readouterr().out


def test_bench(compiled: Compiled) -> None:
    done = _cli("bench", compiled / "model.onnx", "--threads", 2, "--json", "-v")
    result = json.loads(done.stdout)
    assert result["threads"] == 2
    assert result["model"] == str(compiled / "model.onnx")
    assert json.loads(result["target"])["kind"] == "llvm"
    assert 0 < result["scheduled_ms"] <= result["sequential_ms"]
    assert result["greedy_ms"] > 0
    assert result["speedup"] == pytest.approx(
        result["sequential_ms"] / result["scheduled_ms"], rel=1e-3
    )
    assert 1 <= result["stages"] <= result["operators"]
    assert result["measurements"] > 0
    assert result["search_s"] > 0
    assert result["max_rel_error"] < 1e-4
    assert result["max_abs_error"] < 1e-3
    assert "target" in done.stderr  # -v logs


def test_bench_of_a_given_schedule(compiled: Compiled, capsys) -> None:
    schedule = compiled / "s.json"
    arguments = ["--threads", "2", "--schedule-in", str(schedule)]
    assert main(["bench", str(compiled / "model.onnx"), *arguments]) == 0
    text = capsys.readouterr().out
    assert f"in {len(Schedule.load(schedule).stages)} stages, 2 threads" in text
    for name in ("sequential", "greedy", "scheduled", "error"):
        assert name in text


def test_pytorch_export(capsys, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            conv = torch.nn.Conv2d
            self.stem = torch.nn.Sequential(conv(3, 16, 3, 2, 1), torch.nn.BatchNorm2d(16))
            self.branches = torch.nn.ModuleList([conv(16, 16, 1), conv(16, 16, 3, padding=1)])
            self.pool = torch.nn.AdaptiveAvgPool2d(1)
            self.head = torch.nn.Linear(32, 10)

        def forward(self, x):
            x = torch.nn.functional.max_pool2d(torch.relu(self.stem(x)), 2)
            x = torch.cat([torch.relu(branch(x)) for branch in self.branches], 1)
            return torch.softmax(self.head(torch.flatten(self.pool(x), 1)), 1)

    torch.manual_seed(0)
    model, library, out = (tmp_path / name for name in ("net.onnx", "net.so", "out.npz"))
    image = torch.randn(2, *SHAPE[1:])
    torch.onnx.export(
        Network().eval(),
        (image,),
        model,
        dynamo=True,
        external_data=True,
        dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=8)},),
        input_names=["image"],
        verbose=False,
    )
    assert (tmp_path / "net.onnx.data").exists()  # weights in a file of their own
    assert main(["compile", str(model), "-o", str(library)]) == 4
    assert "Dimension 0 (batch) of input 'image' is dynamic" in capsys.readouterr().err
    assert main(["compile", str(model), "-o", str(library), "--batch", "2"]) == 0
    np.savez(tmp_path / "in.npz", image=image.numpy())
    assert main(["run", str(library), "-i", str(tmp_path / "in.npz"), "-o", str(out)]) == 0
    with np.load(out) as results:
        error = _relative_error(results["output_0"], _reference(model, image.numpy()))
    assert error < 1e-3


def _unknown_operator(directory: Path) -> list[str]:
    _save_branches(directory / "strange.onnx", head="NoSuchOperator")
    return ["compile", "strange.onnx", "-o", "m.so"]


def _dynamic(directory: Path) -> list[str]:
    _save_branches(directory / "dynamic.onnx", batch="N")
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
    "unknown operator": (_unknown_operator, "does not know NoSuchOperator"),
    "dynamic dimension": (_dynamic, "Dimension 0 (N) of input 'image' is dynamic"),
    "unknown input": ([*COMPILE, "--input-shapes", "x:[1]"], "no input 'x'; its inputs: image"),
    "wrong rank": ([*COMPILE, "--input-shapes", "image:[1,3]"], "has 4 dimensions"),
    "fixed dimension": ([*COMPILE, "--batch", "2"], "fixes dimension 0"),
    "no shapes": ([*COMPILE, "--input-shapes", "image=1"], "no list of shapes"),
    "unknown pass config": ([*COMPILE, "--pass-config", "r=1"], "max_num_groups, max_block_size"),
    "r below 1": ([*COMPILE, "--pass-config", "max_group_size=0"], "at least 1"),
    "s no number": ([*COMPILE, "--pass-config", "max_num_groups=x"], "whole number"),
    "no threads": ([*COMPILE, "--threads", "0"], "at least 1"),
    "unknown target": ([*COMPILE, "--target", "warp-drive"], "warp-drive"),
    "target of another machine": (
        [*COMPILE, "--target", '{"kind":"llvm","mtriple":"riscv64-linux-gnu"}'],
        "cannot run code for",
    ),
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
    captured = capfd.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert set(os.listdir()) == before


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


def test_error_with_and_without_traceback(tmp_path: Path) -> None:
    plain = _cli("show", tmp_path / "none.json", check=False)
    assert plain.returncode == 4
    assert plain.stdout == ""
    assert plain.stderr.startswith("error: ")
    assert plain.stderr.count("\n") == 1
    verbose = _cli("show", "-v", tmp_path / "none.json", check=False)
    assert verbose.returncode == 4
    assert "Traceback" in verbose.stderr
    assert verbose.stderr.splitlines()[-1] == plain.stderr.strip()


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
