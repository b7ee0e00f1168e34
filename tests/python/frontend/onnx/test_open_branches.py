# SPDX-License-Identifier: Apache-2.0
"""Branches of networks whose dimensions stay open, compared with ONNX Runtime.

What a branch requires of the sizes is required where it is taken, and only there.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import tvm_ios

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'

ROWS = """g (bool c, float[n] x) => (float[k] y) {
  four = Constant <value_ints = [-1, 4]> ()
  three = Constant <value_ints = [-1, 3]> ()
  twice = Add (x, x)
  y = If (c) <then_branch = t () => (float[p] u) {
      a = Reshape (twice, four)
      u = ReduceSum <keepdims = 0> (a)
    }, else_branch = e () => (float[q] v) {
      b = Reshape (x, three)
      d = Exp (b)
      v = ReduceSum <keepdims = 0> (d)
    }>
}"""
"""Rows of four numbers, or of three."""

NESTED = """g (bool c, bool d, int64 n, float[t] x) => (float[1] y) {
  axes = Constant <value_ints = [0]> ()
  yes = Constant <value = bool {1}> ()
  two = Constant <value_ints = [-1, 2]> ()
  five = Constant <value_ints = [-1, 5]> ()
  y = If (c) <then_branch = t1 () => (float[1] u) {
      a = Reshape (x, two)
      s = Softmax (a)
      u = If (d) <then_branch = t2 () => (float[1] m) {
          f = Reshape (s, five)
          g = ReduceMax <axes = [1], keepdims = 0> (f)
          m = ReduceMax <axes = [0], keepdims = 1> (g)
        }, else_branch = e2 () => (float[1] h) {
          l = Loop (n, yes, s) <body = b (int64 i, bool ci, float[r, 2] z)
            => (bool co, float[r, 2] w) {
              w = Mul (z, z)
              co = Identity (ci)
            }>
          i1 = ReduceMax <axes = [1], keepdims = 0> (l)
          h = ReduceMax <axes = [0], keepdims = 1> (i1)
        }>
    }, else_branch = e1 () => (float[1] v) {
      v = ReduceSum <keepdims = 1> (x, axes)
    }>
}"""

JOINED = """g (bool c, float[n, 3] x) => (float[1] y) {
  both = Concat <axis = 0> (x, x)
  flat = Constant <value_ints = [-1]> ()
  eight = Constant <value_ints = [-1, 8]> ()
  line = Reshape (both, flat)
  y = If (c) <then_branch = t () => (float[1] u) {
      a = Reshape (line, eight)
      e = Tanh (a)
      f = ReduceMax <axes = [1], keepdims = 0> (e)
      u = ReduceMax <axes = [0], keepdims = 1> (f)
    }, else_branch = e () => (float[1] v) {
      v = ReduceMax <axes = [0], keepdims = 1> (line)
    }>
}"""
"""A branch reads nothing whose shape is the open dimension itself."""


def saved(tmp_path: Path, text: str) -> Path:
    """A network; its results have no shapes, as those that are written may not fit all sizes."""
    model = onnx.parser.parse_model(f"{HEAD}\n{text}")
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    onnx.save(model, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def assert_like_onnx_runtime(
    path: Path, calls: list[list[np.ndarray]], served: int, refusal: str = "must fulfil"
) -> None:
    """Each call is answered, or refused where ONNX Runtime refuses it, too."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options)
    model = tvm_ios.compile(path, search=False, threads=2)
    names = [value.name for value in session.get_inputs()]
    answered = 0
    for call in calls:
        try:
            (wanted,) = session.run(None, dict(zip(names, call, strict=True)))
        except Exception:  # it raises various types
            with pytest.raises(ValueError, match=refusal):
                model(*call)
            continue
        found = model(*call)
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
        answered += 1
    assert answered == served


def row(count: int) -> np.ndarray:
    return np.random.default_rng(count).standard_normal(count).astype("float32")


def test_each_branch_requires_its_own(tmp_path: Path) -> None:
    sizes = (12, 4, 3, 8, 9, 1, 240)
    calls = [[np.array(c), row(n)] for n in sizes for c in (True, False)]
    assert_like_onnx_runtime(saved(tmp_path, ROWS), calls, 4 + 4)


def test_branches_in_branches(tmp_path: Path) -> None:
    """And a loop, whose steps are functions under the conditions of the branch around it."""
    calls = [
        [np.array(c), np.array(d), np.array(3), row(n)]
        for n in (10, 20, 6, 5, 1, 70)
        for c in (True, False)
        for d in (True, False)
    ]
    assert_like_onnx_runtime(saved(tmp_path, NESTED), calls, 12 + 4 + 3)


def test_sizes_that_no_shape_tells(tmp_path: Path) -> None:
    calls = [
        [np.array(c), row(3 * n).reshape(n, 3)] for n in (4, 8, 1, 5, 100) for c in (True, False)
    ]
    assert_like_onnx_runtime(saved(tmp_path, JOINED), calls, 5 + 3)


LARGEST = """g (bool c, int64[n, t] x) => (int64[n, k] y) {
  three = Constant <value_ints = [3]> ()
  y = If (c) <then_branch = t () => (int64[n, k] u) { u, p = TopK (x, three) },
    else_branch = e () => (int64[n, k] v) {
      zero = Constant <value_ints = [0]> ()
      end = Constant <value_ints = [1]> ()
      axes = Constant <value_ints = [1]> ()
      first = Slice (x, zero, end, axes)
      v = Concat <axis = 1> (first, first, first)
    }>
}"""


def test_a_branch_that_tvm_lowers(tmp_path: Path) -> None:
    """Its function checks sizes, as no kernel of ours does."""
    random = np.random.default_rng(0)
    calls = [
        [np.array(c), random.integers(-9, 9, (2, t))] for t in (3, 40, 2, 1) for c in (True, False)
    ]
    path = saved(tmp_path, LARGEST)
    assert_like_onnx_runtime(path, calls, 2 + 4, refusal="3 <= t")
