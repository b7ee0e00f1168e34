# SPDX-License-Identifier: Apache-2.0
"""Networks that ONNX Runtime's quantisers wrote, compared with ONNX Runtime.

ONNX Runtime does not optimise them here: what it fuses it rounds in another way. What it optimises
is compiled, too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

import tvm_ios
from support.quantised_networks import NETWORKS, Shape

BYTE, SIGNED = QuantType.QUInt8, QuantType.QInt8


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


class Samples(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, shape: Shape) -> None:
        self._samples = iter([{"x": sample(shape, seed)} for seed in range(4)])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._samples, None)


def sample(shape: Shape, seed: int = 9) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def by_onnx_runtime(path: Path, x: np.ndarray, optimised: Path | None = None) -> np.ndarray:
    """Return the result, and leave the optimised network in a file if it has a name."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_DISABLE_ALL
    if optimised is not None:
        options.graph_optimization_level = levels.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(optimised)
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


def distance(path: Path, x: np.ndarray, wanted: np.ndarray) -> float:
    """Return the largest difference of what is compiled here."""
    found = np.asarray(tvm_ios.compile(path, search=False, threads=1)(x))
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    return float(np.abs(found - wanted).max())


def kinds(path: Path) -> set[str]:
    return {node.op_type for node in onnx.load(path).graph.node}


def last_step(path: Path) -> float:
    """Return the scale of the last integers."""
    graph = onnx.load(path).graph
    last = [node for node in graph.node if node.op_type == "DequantizeLinear"][-1]
    (scale,) = (w for w in graph.initializer if w.name == last.input[1])
    return float(numpy_helper.to_array(scale).max())


STATIC = {
    "by channel": (BYTE, SIGNED, True, False),
    "signed": (SIGNED, SIGNED, False, True),
    "unsigned": (BYTE, BYTE, False, True),
}


@pytest.mark.parametrize(
    ("form", "how"),
    [
        (QuantFormat.QDQ, "by channel"),
        (QuantFormat.QDQ, "signed"),
        (QuantFormat.QOperator, "by channel"),
        (QuantFormat.QOperator, "signed"),
        (QuantFormat.QOperator, "unsigned"),
    ],
)
@pytest.mark.parametrize("name", ["convolutional", "layers", "encoder"])
def test_static(name: str, form: QuantFormat, how: str, tmp_path: Path) -> None:
    """The answers are as good as equal, or one step of the last grid apart."""
    path, quantised = tmp_path / "m.onnx", tmp_path / "q.onnx"
    shape = NETWORKS[name](path)
    activations, weights, by_channel, reduced = STATIC[how]
    quantize_static(
        path,
        quantised,
        Samples(shape),
        quant_format=form,
        activation_type=activations,
        weight_type=weights,
        per_channel=by_channel,
        reduce_range=reduced,
    )
    x = sample(shape)
    wanted = by_onnx_runtime(quantised, x)
    exact = form == QuantFormat.QOperator
    bound = 1e-5 if exact else 1.01 * last_step(quantised)
    assert distance(quantised, x, wanted) <= bound
    assert not exact or {k for k in kinds(quantised) if k.startswith("QLinear")}


@pytest.mark.parametrize(("weights", "by_channel"), [(BYTE, False), (SIGNED, True)])
@pytest.mark.parametrize("name", NETWORKS)
def test_dynamic(name: str, weights: QuantType, by_channel: bool, tmp_path: Path) -> None:
    """A recurrent layer is more exact here: ONNX Runtime rounds what it reads."""
    path, quantised = tmp_path / "m.onnx", tmp_path / "q.onnx"
    shape = NETWORKS[name](path)
    quantize_dynamic(
        path, quantised, weight_type=weights, per_channel=by_channel, reduce_range=by_channel
    )
    x = sample(shape)
    wanted = by_onnx_runtime(quantised, x)
    bound = 1e-5 if name != "recurrent" else 0.02
    assert distance(quantised, x, wanted) <= bound * np.abs(wanted).max()


@pytest.mark.parametrize("form", [QuantFormat.QDQ, QuantFormat.QOperator])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("name", ["layers", "encoder"])
def test_four_bits(name: str, symmetric: bool, form: QuantFormat, tmp_path: Path) -> None:
    path, quantised = tmp_path / "m.onnx", tmp_path / "q.onnx"
    shape = NETWORKS[name](path)
    quantizer = MatMulNBitsQuantizer(
        onnx.load(path), block_size=16, is_symmetric=symmetric, quant_format=form
    )
    quantizer.process()
    quantizer.model.save_model_to_file(str(quantised))
    x = sample(shape)
    wanted = by_onnx_runtime(quantised, x)
    assert ("MatMulNBits" in kinds(quantised)) == (form == QuantFormat.QOperator)
    assert distance(quantised, x, wanted) <= 1e-5 * np.abs(wanted).max()


OPTIMISED = {
    "convolutional": {"QLinearConv", "QLinearSigmoid", "QLinearSoftmax", "QGemm"},
    "encoder": {"DynamicQuantizeMatMul", "MatMulIntegerToFloat"},
}


@pytest.mark.parametrize("name", OPTIMISED)
def test_what_is_optimised_after_that(name: str, tmp_path: Path) -> None:
    """ONNX Runtime writes operators of its own."""
    path, quantised, optimised = (tmp_path / f"{n}.onnx" for n in ("m", "q", "o"))
    shape = NETWORKS[name](path)
    if name == "convolutional":
        quantize_static(path, quantised, Samples(shape), per_channel=True)
    else:
        quantize_dynamic(path, quantised)
    x = sample(shape)
    wanted = by_onnx_runtime(quantised, x, optimised)
    assert OPTIMISED[name] <= kinds(optimised)
    bound = 1e-5 if name == "encoder" else 1.01 * last_step(quantised)
    assert distance(optimised, x, wanted) <= bound
