# SPDX-License-Identifier: Apache-2.0
"""``tvm-ios bench`` on a GPU, in the process to which the fake driver is CUDA."""

from __future__ import annotations

import json
from pathlib import Path

import onnx

from support.cuda.fake_driver import TARGET, Emulated
from support.cuda.whole import run_bench
from tvm_ios.baselines.contenders import NAMES


def save_pools(path: Path) -> None:
    """A network whose kernels are soon compiled: two poolings of one image, joined."""
    make, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    window = {"kernel_shape": [3, 3]}
    nodes = [
        make("MaxPool", ["x"], ["most"], **window),
        make("AveragePool", ["x"], ["mean"], **window),
        make("Concat", ["most", "mean"], ["y"], axis=1),
    ]
    image, result = (
        value(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 8, 9, 9]), ("y", [1, 16, 7, 7]))
    )
    graph = onnx.helper.make_graph(nodes, "pools", [image], [result])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), path)


def test_bench(emulated: Emulated, tmp_path: Path) -> None:
    """All that is ours, in graphs and without; PyTorch is shut out of that process."""
    path = tmp_path / "pools.onnx"
    save_pools(path)
    result = json.loads(emulated.call(run_bench, [str(path), "--json"], str(TARGET)))
    assert result["max_rel_error"] < 1e-5
    for name in ("launched", "sequential", "greedy", "scheduled"):
        assert result[f"{name}_ms"] > 0
    assert set(result["peers"]) == set(NAMES)
    assert all("not installed" in peer["left_out"] for peer in result["peers"].values())
    table = emulated.call(run_bench, [str(path)], str(TARGET))
    assert "sequential, without a graph" in table
    assert "torch.compile is left out: PyTorch is not installed." in table
    assert "3 operators in" in table
    assert "thread" not in table
