# SPDX-License-Identifier: Apache-2.0
"""What is quantised and dequantised again is computed in float32, to the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import tvm
from tvm import relax

import tvm_ios
from support.networks import NATIVE, check_scheduled, conv, few_stages, relax_module, run_vm
from support.quantized import onnx_model, quantized, restored, rounded
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.transform import InterOperatorSchedule

op = relax.op


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


@pytest.mark.parametrize(("low", "high"), [(-127, 127), (-100, 3), (-128, 127)])
def test_fewer_integers_than_there_are(low: int, high: int) -> None:
    def body(emit, x):
        whole = emit(op.clip(quantized(emit, x, 0.02, 1, "int8"), low, high))
        return restored(emit, whole, 0.02, 1, "int8")

    mod = relax_module(body, (3, 40))
    assert kinds_of(mod) == ["elementwise"]
    check_scheduled(mod)


@pytest.mark.parametrize(("scale", "zero"), [(0.25, 2), (0.5, 3), (1.0, 0)])
def test_another_grid(scale: float, zero: int) -> None:
    def body(emit, x):
        return restored(emit, quantized(emit, x, 0.5, 2), scale, zero)

    mod = relax_module(body, (2, 3, 5, 7))
    assert kinds_of(mod) == ["elementwise"]
    check_scheduled(mod)


def moved(emit, whole):
    whole = emit(op.nn.max_pool2d(whole, (2, 2), (1, 1), padding=(1, 1)))
    first = emit(op.strided_slice(whole, [1], [1], [3]))
    return emit(op.reshape(emit(op.permute_dims(first, [0, 2, 3, 1])), (2, -1)))


def joined(emit, whole):
    tripled = emit(op.concat([whole, emit(op.flip(whole, 1)), whole], 1))
    return emit(op.concat([whole, tripled], 1))


@pytest.mark.parametrize(("body", "casts"), [(moved, 0), (joined, 2)])
def test_integers_that_are_moved(body: Callable, casts: int) -> None:
    """Integers that come from another operator are cast."""

    def whole(emit, x):
        return restored(emit, body(emit, quantized(emit, x, 0.02, 100)), 0.02, 100)

    mod = relax_module(whole, (2, 3, 5, 7))
    assert kinds_of(mod).count("astype") == casts
    check_scheduled(mod)


def whole_numbers(emit, x, low: float, high: float):
    return emit(op.clip(emit(op.round(emit(op.multiply(x, relax.const(300.0))))), low, high))


def cast(emit, x, dtype: str):
    return emit(op.astype(emit(op.astype(x, dtype)), "float32"))


@pytest.mark.parametrize(
    ("low", "high", "dtype", "stays"),
    [
        (0.0, 255.0, "uint8", False),
        (-(2.0**24), 2.0**24, "int32", False),
        (-1.0, 255.0, "uint8", True),
        (0.5, 255.0, "uint8", True),
        (-(2.0**25), 2.0**25, "int32", True),
    ],
)
def test_casts_of_integers(low: float, high: float, dtype: str, stays: bool) -> None:
    """Those that float32 has, and the other type as well, are no casts."""
    mod = relax_module(lambda emit, x: cast(emit, whole_numbers(emit, x, low, high), dtype), (4, 9))
    assert ("astype" in kinds_of(mod)) == stays
    check_scheduled(mod)


def test_casts_of_fractions() -> None:
    mod = relax_module(lambda emit, x: cast(emit, emit(op.clip(x, 0.0, 255.0)), "uint8"), (4, 9))
    assert "astype" in kinds_of(mod)
    check_scheduled(mod)


def by_channel(emit, x):
    scales = relax.const(np.array([0.5, 0.25, 2.0], "float32"))
    zeros = relax.const(np.zeros(3, "uint8"))
    integers = emit(op.quantize(x, scales, zeros, axis=1, out_dtype="uint8"))
    return emit(op.dequantize(integers, scales, zeros, axis=1))


def test_grids_of_channels_are_left_as_they_are() -> None:
    mod = relax_module(by_channel, (2, 3, 5, 7))
    assert "quantize" in kinds_of(mod)
    check_scheduled(mod)


def test_integers_that_others_read_stay() -> None:
    def body(emit, x):
        whole = quantized(emit, x, 0.1, 4)
        return [whole, restored(emit, whole, 0.1, 4)]

    mod = relax_module(body, (4, 6))
    assert sorted(kinds_of(mod)) == ["astype", *["elementwise"] * 3]
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
