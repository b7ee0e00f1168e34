# SPDX-License-Identifier: Apache-2.0
"""What the tests of the command line share: a small network, its reference, the command itself."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

SHAPE = (1, 3, 24, 24)
# What the installed script tvm-ios does.
COMMAND = [
    sys.executable,
    "-c",
    "import sys; from tvm_ios_entry.command import main; sys.exit(main())",
]


def run_cli(*arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert not check or done.returncode == 0, done.stderr
    return done


def assert_one_sentence(captured: pytest.CaptureResult[str], message: str) -> None:
    """The command printed nothing but an error of one line."""
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1


def save_branches(path: Path, batch: int | str = 1, head: str = "Relu") -> None:
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


def reference(model: Path, image: np.ndarray) -> np.ndarray:
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: image})[0]


def relative_error(actual: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(actual - expected).max() / np.abs(expected).max())


@dataclass(frozen=True)
class Compiled:
    """A network, what ``compile`` made of it, and an input with its correct output."""

    directory: Path
    printed: str
    expected: np.ndarray

    def __truediv__(self, name: str) -> Path:
        return self.directory / name
