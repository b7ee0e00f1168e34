# SPDX-License-Identifier: Apache-2.0
"""What decides a shape must be known; a refusal names the input that decides."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import tvm_ios
from tvm_ios.errors import ModelError

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
UNKNOWN = {
    "a shape": (
        """g (float[4,3] x, int32[1] shape) => (float[a,b] y) <int64[1] two = {2}> {
          wide = Cast <to = 7> (shape)
          both = Concat <axis = 0> (wide, two)
          y = Reshape (x, both)
        }""",
        "Reshape computes its shape from the input 'shape' while it runs; make it an initializer, "
        "or export the model with constant ones.",
    ),
    "a number": (
        """g (int64 k) => (int64[a] y) <int64 one = {1}> {
          more = Add (k, one)
          y = Range (one, more, one)
        }""",
        "Range computes its limit from the input 'k' while it runs; make it an initializer",
    ),
    "two inputs": (
        """g (float[4,3] x, int64[1] p, int64[1] q) => (float[a,b] y) {
          both = Concat <axis = 0> (p, q)
          y = Reshape (x, both)
        }""",
        "Reshape computes its shape from the inputs 'p' and 'q' while it runs; make them "
        "initializers",
    ),
    "an output of several": (
        """g (float[4,3] x, int64[4] sizes) => (float[a,b] y) {
          first, second = Split <axis = 0> (sizes)
          y = Reshape (x, second)
        }""",
        "Reshape computes its shape from the input 'sizes' while it runs",
    ),
    "branches of other sizes": (
        """g (float[1] x) => (float[a] y) <float zero = {0}> {
          positive = Greater (x, zero)
          y = If (positive) <then_branch = a () => (float[1] t) { t = Neg (x) },
            else_branch = b () => (float[2] e) { e = Concat <axis = 0> (x, x) }>
        }""",
        "If chooses between results of different types or shapes from the input 'x' while it runs",
    ),
}


@pytest.mark.parametrize("case", UNKNOWN.values(), ids=UNKNOWN)
def test_a_refusal_names_the_input_that_decides(case: tuple[str, str], tmp_path: Path) -> None:
    text, reason = case
    onnx.save(onnx.parser.parse_model(HEAD + text), tmp_path / "m.onnx")
    with pytest.raises(ModelError) as error:
        tvm_ios.compile(tmp_path / "m.onnx", search=False)
    assert str(error.value).startswith(reason)


def test_its_advice_helps(tmp_path: Path) -> None:
    text, _ = UNKNOWN["a shape"]
    model = onnx.parser.parse_model(HEAD + text)
    del model.graph.input[1]
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([6], "int32"), "shape"))
    onnx.save(model, tmp_path / "m.onnx")
    x = np.random.default_rng(0).standard_normal((4, 3)).astype("float32")
    result = tvm_ios.compile(tmp_path / "m.onnx", search=False, threads=1)(x)
    np.testing.assert_array_equal(result, x.reshape(6, 2))
