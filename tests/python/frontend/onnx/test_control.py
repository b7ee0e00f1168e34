# SPDX-License-Identifier: Apache-2.0
"""Loops and branches of ONNX, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import tvm_ios
from tvm_ios.errors import ModelError

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
COUNTED = """g (float[2,3] x) => (float[2,3] y, float[5,2,3] all)
<int64 five = {5}, bool go = {1}> {
  y, all = Loop (five, go, x) <body = b (int64 i, bool c, float[2,3] s)
    => (bool d, float[2,3] t, float[2,3] kept) {
      d = Identity (c)
      f = Cast <to = 1> (i)
      m = Mul (s, f)
      t = Add (m, x)
      kept = Neg (t)
    }>
}"""
UNTIL = """g (float[2,3] x) => (float[2,3] y)
<bool go = {1}, int64 three = {3}> {
  y = Loop ("", go, x) <body = b (int64 i, bool c, float[2,3] s) => (bool d, float[2,3] t) {
      d = Less (i, three)
      t = Add (s, x)
    }>
}"""
SCANNED = """g (float[2] s, float[4,3,2] x) => (float[2] last, float[2,2,3] all)
{
  last, all = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1],
    scan_output_axes = [1], scan_output_directions = [1],
    body = b (float[2] h, float[4,2] part) => (float[2] n, float[2] kept) {
      m = ReduceMean <axes = [0], keepdims = 0> (part)
      n = Add (h, m)
      kept = Mul (n, n)
    }> (s, x)
}"""
BATCHES = """g (float[2,4] s, float[2,3,4] x, float[2,3] z) => (float[2,4] last, float[2,3,4] all)
{
  last, all = Scan <num_scan_inputs = 2, directions = [1, 0],
    body = b (float[4] h, float[4] part, float w) => (float[4] n, float[4] kept) {
      m = Mul (part, w)
      n = Add (h, m)
      kept = Mul (n, n)
    }> ("", s, x, z)
}"""
MAPPED = """g (float[2,3] x, float[2,3] z) => (float[4,6] y)
{
  pair = SequenceConstruct (x, z)
  turned = SequenceConstruct (z, x)
  sums, twice = SequenceMap (pair, turned, x) <body = b (float[2,3] a, float[2,3] e, float[2,3] f)
    => (float[2,3] c, float[2,3] d) {
      g = Sub (a, e)
      c = Mul (g, f)
      d = Add (a, a)
    }>
  all = ConcatFromSequence <axis = 1> (sums)
  more = ConcatFromSequence <axis = 1> (twice)
  y = Concat <axis = 0> (all, more)
}"""
CHOSEN = """g (float[2,3] x) => (float[2,3] y)
<int64 two = {2}> {
  shape = Shape <start = 0, end = 1> (x)
  small = Equal (shape, two)
  y = If (small) <then_branch = a () => (float[2,3] t) { t = Neg (x) },
    else_branch = b () => (float[2,3] e) { e = NoSuchOperator (x) }>
}"""


def _save(text: str, path: Path, head: str = HEAD) -> onnx.ModelProto:
    model = onnx.parser.parse_model(head + text)
    onnx.save(model, path)
    return model


@pytest.mark.parametrize(
    ("text", "opset"),
    [(COUNTED, 17), (UNTIL, 17), (SCANNED, 17), (MAPPED, 17), (BATCHES, 8)],
    ids=["counted", "until", "scanned", "mapped", "batches"],
)
def test_a_loop_is_unrolled(text: str, opset: int, tmp_path: Path) -> None:
    model = _save(text, tmp_path / "m.onnx", HEAD.replace("17", str(opset)))
    random = np.random.default_rng(0)
    inputs = {
        value.name: random.standard_normal(
            [d.dim_value for d in value.type.tensor_type.shape.dim]
        ).astype("float32")
        for value in model.graph.input
    }
    expected = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(None, inputs)
    results = tvm_ios.compile(tmp_path / "m.onnx", search=False, threads=1)(*inputs.values())
    results = results if isinstance(results, tuple) else (results,)
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)


def test_a_branch_that_is_not_taken_may_be_anything(tmp_path: Path) -> None:
    _save(CHOSEN, tmp_path / "m.onnx")
    x = np.random.default_rng(0).standard_normal((2, 3)).astype("float32")
    result = tvm_ios.compile(tmp_path / "m.onnx", search=False, threads=1)(x)
    np.testing.assert_array_equal(result, -x)


def test_a_size_is_true_unless_it_is_zero(tmp_path: Path) -> None:
    text = CHOSEN.replace(
        "<int64 two = {2}> {\n  shape = Shape <start = 0, end = 1> (x)",
        "{\n  rows = Shape <start = 0, end = 1> (x)",
    )
    _save(text.replace("Equal (shape, two)", "Cast <to = 9> (rows)"), tmp_path / "m.onnx")
    x = np.random.default_rng(0).standard_normal((2, 3)).astype("float32")
    result = tvm_ios.compile(tmp_path / "m.onnx", search=False, threads=1)(x)
    np.testing.assert_array_equal(result, -x)


def test_sequences_of_other_lengths_are_refused(tmp_path: Path) -> None:
    text = MAPPED.replace("turned = SequenceConstruct (z, x)", "turned = SequenceConstruct (z)")
    _save(text, tmp_path / "m.onnx")
    with pytest.raises(ModelError, match=r"^SequenceMap has sequences of the lengths \[1, 2\]"):
        tvm_ios.compile(tmp_path / "m.onnx", search=False)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (BATCHES.replace('""', "lengths").replace("g (", "g (int64[2] lengths, "), "has sequences"),
        (BATCHES.replace("float[2,3] z", "float[3,3] z"), r"has batches of the sizes \[2, 3\]"),
    ],
    ids=["lengths", "batches"],
)
def test_a_scan_of_batches_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    _save(text, tmp_path / "m.onnx", HEAD.replace("17", "8"))
    with pytest.raises(ModelError, match=f"^Scan {reason}"):
        tvm_ios.compile(tmp_path / "m.onnx", search=False)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (UNTIL.replace("d = Less (i, three)", "d = Identity (c)"), "never ends"),
        (
            UNTIL.replace("d = Less (i, three)\n      t = Add (s, x)", "t = Add (s, x)").replace(
                "(bool d,", "(bool c,"
            ),
            "never ends",
        ),
        (
            COUNTED.replace("<int64 five = {5}, bool go = {1}>", "<bool go = {1}, float two = {2}>")
            .replace("(five, go, x)", '("", go, x)')
            .replace(
                "d = Identity (c)", "most = ReduceMax <keepdims = 0> (s)\n d = Less (most, two)"
            ),
            "has results of each of its steps, of which it may take any number",
        ),
    ],
    ids=["endless", "endless in one node", "of any number of steps"],
)
def test_a_loop_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    _save(text, tmp_path / "m.onnx")
    with pytest.raises(ModelError, match=f"^Loop {reason}"):
        tvm_ios.compile(tmp_path / "m.onnx", search=False)
