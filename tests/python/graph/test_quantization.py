# SPDX-License-Identifier: Apache-2.0
"""What is quantised and dequantised again is computed in float32, to the same numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

import tvm_ios
from support.networks import NATIVE, check_scheduled, conv, few_stages, relax_module, run_vm
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.transform import InterOperatorSchedule

op = relax.op


def quantized(emit, x, scale: float, zero: int, dtype: str = "uint8") -> relax.Expr:
    grid = relax.const(scale, "float32"), relax.const(zero, dtype)
    return emit(op.quantize(x, *grid, axis=0, out_dtype=dtype))


def restored(emit, x, scale: float, zero: int, dtype: str = "uint8") -> relax.Expr:
    return emit(op.dequantize(x, relax.const(scale, "float32"), relax.const(zero, dtype), axis=0))


def rounded(emit, x, *grid) -> relax.Expr:
    return restored(emit, quantized(emit, x, *grid), *grid)


def kinds_of(mod: tvm.IRModule) -> list[str]:
    graph = Scheduler.prepare(mod, NATIVE, cost_model=few_stages).graph
    return [operator.kind for operator in graph.operators]


@pytest.mark.parametrize("grid", [(0.02, 0), (0.05, 128), (0.03, 3, "int8"), (1e-3, -7, "int16")])
def test_it_joins_the_operator_before(grid: tuple) -> None:
    def body(emit, x):
        x = rounded(emit, emit(op.nn.relu(emit(conv(rounded(emit, x, *grid), 20)))), *grid)
        x = rounded(emit, emit(op.nn.max_pool2d(x, (2, 2), (2, 2))), *grid)
        return emit(conv(x, 12, 1, seed=1))

    mod = relax_module(body, (1, 9, 11, 13))
    assert kinds_of(mod) == ["elementwise", "conv2d", "max_pool2d", "conv2d"]
    check_scheduled(mod)


def another_scale(emit, x):
    return restored(emit, quantized(emit, x, 0.5, 2), 0.25, 2)


def another_zero(emit, x):
    return restored(emit, quantized(emit, x, 0.5, 2), 0.5, 3)


def by_channel(emit, x):
    scales = relax.const(np.array([0.5, 0.25, 2.0], "float32"))
    zeros = relax.const(np.zeros(3, "uint8"))
    integers = emit(op.quantize(x, scales, zeros, axis=1, out_dtype="uint8"))
    return emit(op.dequantize(integers, scales, zeros, axis=1))


def integers(emit, x):
    return quantized(emit, x, 0.5, 2)


@pytest.mark.parametrize("body", [another_scale, another_zero, by_channel, integers])
def test_what_is_left_as_it_is(body) -> None:
    mod = relax_module(body, (2, 3, 5, 7))
    assert "quantize" in kinds_of(mod)
    check_scheduled(mod)


def test_integers_that_others_read_stay() -> None:
    def body(emit, x):
        whole = quantized(emit, x, 0.1, 4)
        return [whole, restored(emit, whole, 0.1, 4)]

    mod = relax_module(body, (4, 6))
    assert sorted(kinds_of(mod)) == ["elementwise", "quantize"]
    check_scheduled(mod)


@pytest.mark.parametrize(("scale", "zero"), [(0.5, 0), (2.0, 127), (1.0, -128)])
def test_ties_are_rounded_to_even(scale: float, zero: int) -> None:
    """By powers of two, of which the reciprocals are exact."""
    mod = relax_module(lambda emit, x: rounded(emit, x, scale, zero, "int8"), (520,))
    x = scale * np.arange(-260, 260, dtype="float32") + scale / 2
    scheduled = InterOperatorSchedule(NATIVE, cost_model=few_stages)(mod)
    (found,) = run_vm(tvm.compile(scheduled, NATIVE), [x])
    whole = np.clip(np.rint(x / scale) + zero, -128, 127) - zero
    np.testing.assert_array_equal(found, (scale * whole).astype("float32"))


def onnx_model(path: Path, input_zero: int = 120) -> np.ndarray:
    """Write a quantised network as exporters do, and return an input for it."""
    random = np.random.default_rng(0)
    nodes, constants = [], []

    def constant(name: str, value: np.ndarray) -> str:
        constants.append(numpy_helper.from_array(value, name))
        return name

    def grid(name: str, scale: object, zero: object) -> tuple[str, str]:
        scales = constant(f"{name}.scale", np.array(scale, "float32"))
        return scales, constant(f"{name}.zero", np.array(zero))

    def pair(x: str, scale: float, zero: int) -> str:
        about = grid(x, scale, np.uint8(zero))
        nodes.append(helper.make_node("QuantizeLinear", [x, *about], [f"{x}.q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{x}.q", *about], [f"{x}.d"]))
        return f"{x}.d"

    def convolve(x: str, name: str, shape: tuple[int, ...], scale: float, **about: object) -> str:
        scales = random.uniform(0.002, 0.01, shape[0]).astype("float32")
        weights = random.integers(-127, 128, shape).astype("int8")
        zeros = np.zeros(shape[0], "int8")
        bias = random.integers(-500, 500, shape[0]).astype("int32")
        inputs = [constant(f"{name}.w", weights), *grid(f"{name}.w", scales, zeros)]
        nodes.append(helper.make_node("DequantizeLinear", inputs, [f"{name}.w.d"], axis=0))
        inputs = [
            constant(f"{name}.b", bias),
            *grid(f"{name}.b", scale * scales, zeros.astype("int32")),
        ]
        nodes.append(helper.make_node("DequantizeLinear", inputs, [f"{name}.b.d"], axis=0))
        arguments = [x, f"{name}.w.d", f"{name}.b.d"]
        nodes.append(helper.make_node("Conv", arguments, [name], **about))
        return name

    def relu(x: str) -> str:
        nodes.append(helper.make_node("Relu", [x], [f"{x}.relu"]))
        return f"{x}.relu"

    x = pair("x", 0.02, input_zero)
    x = pair(relu(convolve(x, "first", (24, 3, 3, 3), 0.02, pads=[1, 1, 1, 1])), 0.03, 0)
    nodes.append(helper.make_node("MaxPool", [x], ["pooled"], kernel_shape=[2, 2], strides=[2, 2]))
    x = pair("pooled", 0.03, 0)
    left = pair(convolve(x, "left", (40, 24, 1, 1), 0.03), 0.05, 131)
    right = pair(convolve(x, "right", (40, 24, 3, 3), 0.03, pads=[1, 1, 1, 1]), 0.08, 117)
    nodes.append(helper.make_node("Add", [left, right], ["sum"]))
    x = pair(relu("sum"), 0.05, 0)
    x = convolve(x, "last", (10, 40, 3, 3), 0.05, strides=[2, 2])
    y = helper.make_tensor_value_info(x, TensorProto.FLOAT, None)
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 18, 22])
    graph = helper.make_graph(nodes, "quantized", [given], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return random.standard_normal((1, 3, 18, 22)).astype("float32")


def test_a_model_in_onnx(tmp_path: Path) -> None:
    x = onnx_model(tmp_path / "m.onnx")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", options)
    (expected,) = session.run(None, {"x": x})
    library = tvm_ios.compile(tmp_path / "m.onnx", target=NATIVE, search=False)
    kinds = {operator.kind for operator in library.schedule.operators}
    assert kinds <= {"elementwise", "conv2d", "max_pool2d"}
    assert np.abs(library(x) - expected).max() < 1e-2 * np.abs(expected).max()
