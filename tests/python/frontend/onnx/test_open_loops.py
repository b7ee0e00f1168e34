# SPDX-License-Identifier: Apache-2.0
"""Loops over an open number of steps that keep results of each, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.parser
import pytest

from support.open_networks import assert_any_shape
from tvm_ios.errors import ModelError

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
STEP = """
      sum = Add (a, row)
      next = Tanh (sum)
      square = Mul (next, next)
      out = Add (square, row)"""
LOOP = """g (float[n, b, 5] x, float[b, 5] s) => (last, all, mean) {
  shape = Shape <start = 0, end = 1> (x)
  count = Squeeze (shape)
  yes = Constant <value = bool {1}> ()
  last, all = Loop (count, yes, s) <body = body (int64 i, bool c, float[b, 5] a)
    => (bool co, float[b, 5] next, float[b, 5] out) {
      row = Gather (x, i) STEP
      co = Identity (c)
    }>
  mean = ReduceMean <axes = [0], keepdims = 0> (all)
}"""
SCAN = """g (float[n, b, 5] x, float[b, 5] s) => (last, all) {
  last, all = Scan <num_scan_inputs = 1 DIRECTION, body = body (float[b, 5] a, float[b, 5] row)
    => (float[b, 5] next, float[b, 5] out) { STEP
    }> (s, x)
}"""
BACKWARDS = ", scan_input_directions = [1]"
CALLS = [[(n, b, 5), (b, 5)] for n, b in ((1, 1), (2, 3), (3, 1), (8, 2), (37, 4), (100, 1))]


def saved(tmp_path: Path, text: str) -> Path:
    """A network, of whose results nothing is said."""
    begin, _, results = text.replace("STEP", STEP).partition(" => (")
    results, _, rest = results.partition(") {")
    typed = ", ".join(f"float {name.strip()}" for name in results.split(","))
    model = onnx.parser.parse_model(f"{HEAD}\n{begin} => ({typed}) {{{rest}")
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    onnx.save(model, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.mark.parametrize("threads", [1, 2])
def test_loops(tmp_path: Path, threads: int) -> None:
    assert_any_shape(saved(tmp_path, LOOP), CALLS, threads=threads)


@pytest.mark.parametrize("direction", ["", BACKWARDS])
def test_scans(tmp_path: Path, direction: str) -> None:
    assert_any_shape(saved(tmp_path, SCAN.replace("DIRECTION", direction)), CALLS)


def test_a_loop_that_may_end_before(tmp_path: Path) -> None:
    """The largest number of results is not known."""
    text = LOOP.replace("co = Identity (c)", "t = ReduceMax <keepdims = 0> (a)\n co = Less (t, t)")
    with pytest.raises(ModelError, match="of which it may take any number"):
        assert_any_shape(saved(tmp_path, text), CALLS)


COUNTING = """g (float[n, b, 5] x, float[b, 5] s) => (last, all) {
  shape = Shape <start = 0, end = 1> (x)
  count = Squeeze (shape)
  length = Identity (count)
  zero = Constant <value = int64 {0}> ()
  real = Cast <to = 1> (count)
  nothing = Constant <value = float {0.0}> ()
  begins = Less (nothing, real)
  seen, limit, last, all = Loop (count, begins, zero, length, s)
    <body = body (int64 i, bool c, int64 place, int64 limit_in, float[b, 5] a)
    => (bool co, int64 following, int64 limit_out, float[b, 5] next, float[b, 5] out) {
      one = Constant <value = int64 {1}> ()
      row = Gather (x, place) STEP
      following = Add (one, place)
      limit_out = Identity (limit_in)
      ahead = Cast <to = 1> (following)
      end = Cast <to = 1> (limit_out)
      first = Less (ahead, end)
      second = Less (i, length)
      co = And (first, second)
    }>
}"""
"""As TensorFlow's loops over the steps of a sequence are written."""


def test_conditions_that_only_count(tmp_path: Path) -> None:
    assert_any_shape(saved(tmp_path, COUNTING), CALLS)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("value = int64 {0}", "value = int64 {1}"),
        (
            "first = Less (ahead, end)",
            "later = Add (one, following)\n first = Less (later, length)",
        ),
        ("second = Less (i, length)", "half = Div (length, one)\n second = Less (i, zero)"),
        ("following = Add (one, place)", "following = Add (place, place)"),
        ("limit_out = Identity (limit_in)", "limit_out = Sub (limit_in, one)"),
        (
            "ahead = Cast <to = 1> (following)",
            "few = Cast <to = 3> (following)\n ahead = Cast <to = 1> (few)",
        ),
        ("co = And (first, second)", "co = Or (first, second)"),
        ("begins = Less (nothing, real)", "begins = Less (real, nothing)"),
    ],
)
def test_conditions_that_do_not(tmp_path: Path, old: str, new: str) -> None:
    """They may end the loop before, or are not understood."""
    with pytest.raises(ModelError, match="of which it may take any number"):
        assert_any_shape(saved(tmp_path, COUNTING.replace(old, new)), CALLS)


def test_long_loops_do_not_exhaust_the_stack(tmp_path: Path) -> None:
    """A call is as deep in itself as the number of steps has bits."""
    assert_any_shape(saved(tmp_path, LOOP), [[(30_000, 1, 5), (1, 5)]], threads=1)
