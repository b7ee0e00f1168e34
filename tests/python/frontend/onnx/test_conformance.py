# SPDX-License-Identifier: Apache-2.0
"""ONNX's own tests of operators: a model gives the right answer, or is refused by a sentence."""

from __future__ import annotations

import warnings
from itertools import groupby
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import pytest
from onnx.backend.test.loader import load_model_tests

import tvm_ios
from tvm_ios.errors import ModelError

REPLACED = {
    "ConvTranspose", "GRU", "IsInf", "LSTM", "LayerNormalization", "LpNormalization", "Pow",
    "RMSNormalization", "RNN", "Resize", "SpaceToDepth", "Tile",
}  # fmt: skip
"""Operators that are decomposed here, or that were wrong once; all of their cases run."""

PER_OPERATOR = 1
"""Cases of every other operator."""

REFUSED = {
    "test_gru_defaults": False,
    "test_lstm_with_peepholes": True,
    "test_nonmaxsuppression_single_box": True,
    "test_scan_sum": True,
    "test_strnormalizer_nostopwords_nochangecase": True,
    "test_training_dropout": True,
    "test_dropout_default_mask": False,
    "test_cast_FLOAT_to_FLOAT8E5M2": True,
    "test_cast_FLOAT_to_BFLOAT16": False,
    "test_batchnorm_example_training_mode": False,
    "test_hannwindow": True,
    "test_swish": False,
}
"""Whether some cases are refused: a case must not pass because all are."""

KNOWN_WRONG = {
    "test_bitshift_left_int32_negative_shift": "C++ leaves it undefined",
    "test_bitshift_left_int32_shift_ge_width": "C++ leaves it undefined",
    "test_mod_float_edge_cases_fmod_0_float16": "TVM's remainder of infinity",
    "test_mod_float_edge_cases_fmod_0_float32": "TVM's remainder of infinity",
    "test_mod_float_edge_cases_fmod_0_float64": "TVM's remainder of infinity",
}


def _operator(case) -> str:
    return case.model.graph.node[0].op_type


def _chosen() -> list:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the overflows that some cases are about
        cases = [c for c in load_model_tests(kind="node") if not c.name.endswith("_expanded")]
    cases.sort(key=lambda case: (_operator(case), case.name))
    chosen = {}
    for operator, group in groupby(cases, _operator):
        of_it = list(group)
        count = len(of_it) if operator in REPLACED else PER_OPERATOR
        chosen.update((case.name, case) for case in of_it[:count] if case.name not in KNOWN_WRONG)
    chosen.update((case.name, case) for case in cases if case.name in REFUSED)
    return list(chosen.values())


CASES = _chosen()


def _array(value: object) -> np.ndarray:
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _with_constants(case, inputs: list[np.ndarray]) -> tuple[onnx.ModelProto, list[np.ndarray]]:
    """Make constants of the inputs that real models have as such: lists, numbers, and weights."""
    model, kept = onnx.ModelProto(), []
    model.CopyFrom(case.model)
    recurrent = _operator(case) in ("GRU", "LSTM", "RNN")
    for i, (value, array) in enumerate(zip(list(model.graph.input), inputs, strict=True)):
        constant = isinstance(array, np.ndarray) and (
            array.ndim <= 1 or (recurrent and 1 <= i <= 3)
        )
        if i and constant:
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
            model.graph.input.remove(value)
        else:
            kept.append(array)
    return model, kept


def _compile(path: Path, shapes: dict) -> tuple[tvm_ios.CompiledModel | None, str]:
    """The compiled model, or why there is none."""
    try:
        return tvm_ios.compile(path, search=False, threads=1, input_shapes=shapes), ""
    except ModelError as error:
        return None, str(error)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_operator(case, tmp_path: Path) -> None:
    given, wanted = case.data_sets[0]
    model, inputs = _with_constants(case, [_array(value) for value in given])
    onnx.save(model, tmp_path / "model.onnx")
    shapes = {
        value.name: np.shape(array)
        for value, array in zip(model.graph.input, inputs, strict=True)
        if value.type.HasField("tensor_type")
    }
    compiled, reason = _compile(tmp_path / "model.onnx", shapes)
    if compiled is None:
        assert "\n" not in reason
        assert REFUSED.get(case.name, True), reason
        return
    assert not REFUSED.get(case.name, False)
    results = compiled(*[np.asarray(array, order="C") for array in inputs])
    results = results if isinstance(results, tuple) else (results,)
    assert len(results) == len(wanted)
    for result, expected in zip(results, map(_array, wanted), strict=True):
        assert result.shape == expected.shape
        assert result.dtype == expected.dtype
        narrow = expected.dtype.itemsize <= 2
        np.testing.assert_allclose(
            result.astype("float64"),
            expected.astype("float64"),
            rtol=1e-2 if narrow else 1e-3,
            atol=1e-2 if narrow else 1e-5,
        )
