# SPDX-License-Identifier: Apache-2.0
"""Pads become a part of the convolutions and max pools that read them."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

import tvm_ios
from support.cli import relative_error
from support.networks import NATIVE, check_scheduled, constant, few_stages, relax_module
from tvm_ios.compiler.scheduler import Scheduler

op = relax.op

Emit = Callable[[relax.Expr], relax.Var]

IMAGE = [0, 0, 0, 0, 0, 1, 2, 1]
"""More below than above, and more on the left than on the right."""


def kinds(mod: tvm.IRModule) -> list[str]:
    return [op.kind for op in Scheduler.prepare(mod, NATIVE, cost_model=few_stages).graph.operators]


def convolved(widths: list[int] = IMAGE, mode: str = "constant", value: float = 0.0):
    def body(emit: Emit, x: relax.Var) -> relax.Expr:
        padded = emit(op.nn.pad(x, widths, mode, value))
        channels = padded.ty.shape.values[1]
        full = emit(op.nn.conv2d(padded, constant(9, int(channels), 3, 5), (2, 1), (0, 1, 2, 0)))
        return relax.Tuple([full, emit(op.nn.max_pool2d(padded, (3, 3)))])

    return relax_module(body, (2, 5, 13, 9))


def test_a_convolution_pads_and_a_pool_of_zeros_does_not() -> None:
    mod = convolved()
    assert kinds(mod).count("pad") == 1  # the pool's
    check_scheduled(mod)


@pytest.mark.parametrize(
    ("widths", "mode", "value"),
    [
        (IMAGE, "constant", 1.5),
        (IMAGE, "replicate", 0.0),
        ([0, 0, 1, 1, 0, 1, 0, 1], "constant", 0.0),
        ([1, 0, 0, 0, 0, 1, 0, 1], "constant", 0.0),
    ],
    ids=["ones", "replicate", "channels", "images"],
)
def test_other_pads_stay(widths: list[int], mode: str, value: float) -> None:
    mod = convolved(widths, mode, value)
    assert kinds(mod).count("pad") == 1
    check_scheduled(mod)


@pytest.mark.parametrize("groups", [1, 2, 8], ids=["all", "groups", "depthwise"])
def test_convolutions_of_all_kinds_pad(groups: int) -> None:
    def body(emit: Emit, x: relax.Var) -> relax.Expr:
        padded = emit(op.nn.pad(x, IMAGE))
        weights = constant(8, 8 // groups, 3, 3)
        return emit(op.nn.conv2d(padded, weights, (2, 2), dilation=(2, 1), groups=groups))

    mod = relax_module(body, (1, 8, 15, 11))
    assert "pad" not in kinds(mod)
    check_scheduled(mod)


def test_channels_last_and_one_axis() -> None:
    def body(emit: Emit, x: relax.Var) -> relax.Expr:
        padded = emit(op.nn.pad(x, [0, 0, 1, 2, 3, 0, 0, 0]))
        image = emit(op.nn.conv2d(padded, constant(3, 3, 4, 7), data_layout="NHWC",
                                  kernel_layout="HWIO"))  # fmt: skip
        row = emit(op.reshape(image, (2, 7, -1)))
        return emit(op.nn.conv1d(emit(op.nn.pad(row, [0, 0, 0, 0, 4, 1])), constant(5, 7, 3)))

    mod = relax_module(body, (2, 9, 6, 4))
    assert "pad" not in kinds(mod)
    check_scheduled(mod)


def test_a_max_pool_pads_with_infinity() -> None:
    def body(emit: Emit, x: relax.Var) -> relax.Expr:
        padded = emit(op.nn.pad(x, IMAGE, pad_value=-math.inf))
        return emit(op.nn.max_pool2d(padded, (3, 3), (2, 2), ceil_mode=True))

    mod = relax_module(body, (1, 5, 14, 9))
    assert "pad" not in kinds(mod)
    check_scheduled(mod)


@pytest.mark.parametrize(("value", "left"), [(0.0, 0), (0.5, 1)], ids=["absorbed", "stays"])
def test_pads_of_onnx(value: float, left: int, tmp_path: Path) -> None:
    """TVM imports them as calls of TIR functions."""
    random = np.random.default_rng(0)
    tensors = [
        numpy_helper.from_array(random.standard_normal((6, 5, 3, 3)).astype("float32"), "w"),
        numpy_helper.from_array(np.array([0, 0, 2, 0, 0, 0, 1, 3]), "pads"),
        numpy_helper.from_array(np.float32(value), "value"),
    ]
    graph = helper.make_graph(
        [
            helper.make_node("Pad", ["x", "pads", "value"], ["padded"]),
            helper.make_node("Conv", ["padded", "w"], ["y"], strides=[2, 2]),
        ],
        "padded",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 5, 12, 9))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 6, 7, 5))],
        tensors,
    )
    path = tmp_path / "m.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
    compiled = tvm_ios.compile(path, search=False, threads=2)
    assert len(compiled.schedule.operators) == 1 + left
    x = random.standard_normal((1, 5, 12, 9)).astype("float32")
    (expected,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
    assert relative_error(compiled(x), expected) < 1e-5
