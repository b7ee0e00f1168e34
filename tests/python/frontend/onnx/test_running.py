# SPDX-License-Identifier: Apache-2.0
"""Branches and loops that are decided while a network runs, compared with ONNX Runtime."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import tvm_ios
from support.networks import assert_close
from tvm_ios.errors import ModelError, ScheduleError
from tvm_ios.schedule.schedule import Schedule

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
NESTED = """g (bool c, int64 n, int64 k, float[1,3,11,9] x) => (float[1,8,11,9] y, float[1,7] r)
<float[8,3,3,3] w, float[8,8,3,3] inner, float[20] table>
{
  yes = Constant <value = bool {1}> ()
  a = Conv <pads = [1,1,1,1]> (x, w)
  y, r = If (c) <then_branch = t () => (float[1,8,11,9] p, float[1,7] q) {
      b = Relu (a)
      p = Loop (n, yes, b) <body = l (int64 i, bool ci, float[1,8,11,9] s)
        => (bool co, float[1,8,11,9] next) {
          v = Conv <pads = [1,1,1,1]> (s, inner)
          two = Constant <value_int = 2> ()
          one = Constant <value_int = 1> ()
          rest = Mod (i, two)
          odd = Equal (rest, one)
          next = If (odd) <then_branch = o () => (float[1,8,11,9] f) { f = Tanh (v) },
            else_branch = e () => (float[1,8,11,9] h) { h = Add (v, a) }>
          co = Identity (ci)
        }>
      picked = Gather (table, k)
      shape = Constant <value_ints = [1, 7]> ()
      q = Expand (picked, shape)
    }, else_branch = e () => (float[1,8,11,9] m, float[1,7] z) {
      m = Neg (a)
      half = Constant <value_floats = [0.5]> ()
      shape2 = Constant <value_ints = [1, 7]> ()
      z = Expand (half, shape2)
    }>
}"""
WHILE = """g (int64 n, bool c, float[4,5] x) => (float[4,5] y, float[1,5] z)
<float grows = {1.01}, float limit = {9}, float[1,5] zeros = {0,0,0,0,0}> {
  y, z = Loop (n, c, x, zeros) <body = b (int64 i, bool ci, float[4,5] s, float[1,5] u)
    => (bool co, float[4,5] t, float[1,5] v) {
      t = Mul (s, grows)
      sums = ReduceMean <axes = [0], keepdims = 1> (t)
      v = Sub (sums, u)
      most = ReduceMax <keepdims = 0> (t)
      co = Less (most, limit)
    }>
}"""
ENDLESS = """g (float[4,5] x) => (float[4,5] y)
<bool go = {1}, float zero = {0}> {
  y = Loop ("", go, x) <body = b (int64 i, bool ci, float[4,5] s) => (bool co, float[4,5] t) {
      t = Identity (s)
      most = ReduceMax <keepdims = 0> (t)
      co = Greater (most, zero)
    }>
}"""


SCANNED = """g (float[2] s, float[4,LENGTH,2] x) => (float[2] last, float[2,LENGTH,2] all)
{
  last, all = Scan <num_scan_inputs = 1, scan_input_axes = [-2], scan_input_directions = [IN],
    scan_output_axes = [1], scan_output_directions = [OUT],
    body = b (float[2] h, float[4,2] part) => (float[2] n, float[2,2] kept) {
      half = Constant <value_float = 0.5> ()
      m = ReduceMean <axes = [0], keepdims = 0> (part)
      r = Mul (h, half)
      n = Add (r, m)
      shape = Constant <value_ints = [2, 2]> ()
      kept = Expand (n, shape)
    }> (s, x)
}"""
KEPT = """g (bool c, float limit, float[4,5] x) => (float[4,5] y, float[n,5] z, float[n,5] twice)
<int64 n = {STEPS}, float grows = {1.01}> {
  y, z = Loop (n, c, x) <body = b (int64 i, bool ci, float[4,5] s)
    => (bool co, float[4,5] t, float[5] sums) {
      t = Mul (s, grows)
      most = ReduceMax <keepdims = 0> (t)
      co = Less (most, limit)
      axis = Constant <value_ints = [0]> ()
      sums = ReduceSum <keepdims = 0> (t, axis)
    }>
  twice = Add (z, z)
}"""


def _save(text: str, path: Path, **weights: np.ndarray) -> onnx.ModelProto:
    model = onnx.parser.parse_model(HEAD + text)
    if weights:
        del model.graph.initializer[:]
    for name, weight in weights.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    onnx.save(model, path)
    return model


def _check(model: tvm_ios.CompiledModel, path: Path, inputs: Mapping[str, np.ndarray]) -> None:
    expected = onnxruntime.InferenceSession(path).run(None, dict(inputs))
    for result, wanted in zip(model(*inputs.values()), expected, strict=True):
        assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
        if result.size:
            assert_close(result, wanted)


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A loop in a branch, and a branch in its body."""
    random, path = np.random.default_rng(0), tmp_path_factory.mktemp("nested") / "m.onnx"
    weights = {"w": (8, 3, 3, 3), "inner": (8, 8, 3, 3), "table": (20,)}
    drawn = {n: (0.2 * random.standard_normal(s)).astype("float32") for n, s in weights.items()}
    _save(NESTED, path, **drawn)
    return path


def _inputs(chosen: bool, steps: int, place: int) -> dict[str, np.ndarray]:
    x = np.random.default_rng(1).standard_normal((1, 3, 11, 9)).astype("float32")
    return {"c": np.array(chosen), "n": np.array(steps), "k": np.array(place), "x": x}


@pytest.mark.parametrize("threads", [1, 2])
def test_branches_and_loops_inside_of_each_other(nested: Path, threads: int) -> None:
    model = tvm_ios.compile(nested, search=False, threads=threads)
    for chosen, steps, place in [(True, 5, 3), (True, 0, 19), (True, 1, -20), (False, 5, 3)]:
        _check(model, nested, _inputs(chosen, steps, place))


def test_an_index_counts_in_the_branch_that_is_taken(nested: Path) -> None:
    model = tvm_ios.compile(nested, search=False, threads=1)
    _check(model, nested, {**_inputs(False, 1, 0), "k": np.array(0)})
    model(*_inputs(False, 1, 100).values())
    with pytest.raises(IndexError, match="must be from -20 to 19, got 100"):
        model(*_inputs(True, 1, 100).values())


def test_parts_are_searched_and_have_schedules(nested: Path, tmp_path: Path) -> None:
    searched = tvm_ios.compile(nested, threads=2, seed=0)
    schedule = searched.schedule
    assert sorted(name.split("_")[0] for name in schedule.parts) == [*["branch"] * 4, "step"]
    (step,) = (part for name, part in schedule.parts.items() if name.startswith("step"))
    assert "conv2d" in {operator.kind for operator in step.operators}
    _check(searched, nested, _inputs(True, 3, 2))
    schedule.save(tmp_path / "s.json")
    read = Schedule.load(tmp_path / "s.json")
    assert read == schedule
    again = tvm_ios.compile(nested, threads=2, schedule=read)
    _check(again, nested, _inputs(True, 4, 2))
    with pytest.raises(ScheduleError, match="other branches and loops"):
        tvm_ios.compile(nested, threads=2, schedule=replace(read, parts={}))


def test_a_loop_ends_by_its_count_or_its_condition(tmp_path: Path) -> None:
    _save(WHILE, tmp_path / "m.onnx")
    model = tvm_ios.compile(tmp_path / "m.onnx", search=False, threads=1)
    x = np.random.default_rng(0).standard_normal((4, 5)).astype("float32")
    for steps in (-3, 0, 1, 2, 3, 7, 100, 2**40):
        for goes_on in (True, False):
            inputs = {"n": np.array(steps), "c": np.array(goes_on), "x": x}
            _check(model, tmp_path / "m.onnx", inputs)


@pytest.mark.parametrize(("length", "backwards", "turned"), [(1500, 0, 0), (1, 1, 0), (1023, 1, 1)])
def test_a_long_scan_is_a_loop(length: int, backwards: int, turned: int, tmp_path: Path) -> None:
    text = SCANNED.replace("LENGTH", str(length)).replace("IN]", f"{backwards}]")
    _save(text.replace("OUT]", f"{turned}]"), tmp_path / "m.onnx")
    model = tvm_ios.compile(tmp_path / "m.onnx", search=False, threads=1)
    assert bool(model.schedule.parts) == (length > 1)
    random = np.random.default_rng(0)
    shapes = {"s": (2,), "x": (4, length, 2)}
    inputs = {n: random.standard_normal(s).astype("float32") for n, s in shapes.items()}
    _check(model, tmp_path / "m.onnx", inputs)


@pytest.mark.parametrize("steps", [1, 2, 37, 1000])
def test_results_of_steps_are_counted(steps: int, tmp_path: Path) -> None:
    _save(KEPT.replace("STEPS", str(steps)), tmp_path / "m.onnx")
    model = tvm_ios.compile(tmp_path / "m.onnx", search=False, threads=1)
    x = np.random.default_rng(0).standard_normal((4, 5)).astype("float32")
    for limit in (-1, 2, 3, 5, 1e9):
        for goes_on in (True, False):
            limits = np.array(limit, "float32")
            _check(model, tmp_path / "m.onnx", {"c": np.array(goes_on), "limit": limits, "x": x})


def test_states_in_16_bits(tmp_path: Path) -> None:
    text = """g (int64 n, bool c, float16[4,5] x) => (float16[4,5] y) <float limit = {9}> {
      y = Loop (n, c, x) <body = b (int64 i, bool ci, float16[4,5] s)
        => (bool co, float16[4,5] t) {
          tanh = Tanh (s)
          t = Add (s, tanh)
          wide = Cast <to = 1> (t)
          most = ReduceMax <keepdims = 0> (wide)
          co = Less (most, limit)
        }>
    }"""
    _save(text, tmp_path / "m.onnx")
    model = tvm_ios.compile(tmp_path / "m.onnx", search=False, threads=1)
    x = np.random.default_rng(0).standard_normal((4, 5)).astype("float16")
    expected = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    for steps in (0, 1, 3, 9):
        inputs = {"n": np.array(steps), "c": np.array(True), "x": x}
        result, wanted = model(*inputs.values()), expected.run(None, inputs)[0]
        assert result.dtype == wanted.dtype
        np.testing.assert_allclose(result, wanted, rtol=2e-3 * (1 + steps))


def test_a_loop_without_end_is_interrupted(tmp_path: Path) -> None:
    _save(ENDLESS, tmp_path / "m.onnx")
    model = tvm_ios.compile(tmp_path / "m.onnx", search=False, threads=1)
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        model(np.ones((4, 5), "float32"))
    x = -np.ones((4, 5), "float32")
    np.testing.assert_array_equal(model(x), x)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            WHILE.replace("v = Sub (sums, u)", "v = Concat <axis = 0> (sums, u)"),
            "Loop changes the type or the shape of a state",
        ),
        (
            ENDLESS.replace('Loop ("", go, x)', 'Loop ("", x, x)'),
            "Loop needs its condition as bool",
        ),
    ],
    ids=["a state that grows", "a condition that is a matrix"],
)
def test_a_loop_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    _save(text, tmp_path / "m.onnx")
    with pytest.raises(ModelError, match=reason):
        tvm_ios.compile(tmp_path / "m.onnx", search=False)


def test_a_branch_for_other_shapes_fails_when_it_is_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a network for two sizes of its input, one branch may be wrong at the size given."""
    text = """g (bool c, float[2,3] x) => (float[2,3] y, float z)
    <float[5,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}> {
      y, z = If (c) <then_branch = a () => (float[2,3] t, float m) {
          t = Neg (x)
          m = ReduceMax <keepdims = 0> (t)
        }, else_branch = b () => (float[2,3] e, float n) {
          e = MatMul (x, w)
          n = ReduceMax <keepdims = 0> (e)
        }>
    }"""
    _save(text, tmp_path / "m.onnx")
    model = tvm_ios.compile(tmp_path / "m.onnx", search=False, threads=1)
    assert "fails if it takes its else branch" in caplog.text
    x = np.random.default_rng(0).standard_normal((2, 3)).astype("float32")
    np.testing.assert_array_equal(model(np.array(True), x)[0], -x)
    with pytest.raises(ValueError, match="takes its else branch, which was not compiled"):
        model(np.array(False), x)


def test_branches_of_other_shapes_are_refused(tmp_path: Path) -> None:
    text = """g (bool c, float[4,5] x) => (float[M,5] y) {
      y = If (c) <then_branch = a () => (float[4,5] t) { t = Neg (x) },
        else_branch = b () => (float[8,5] e) { e = Concat <axis = 0> (x, x) }>
    }"""
    _save(text, tmp_path / "m.onnx")
    with pytest.raises(ModelError, match="chooses between results of different types or shapes"):
        tvm_ios.compile(tmp_path / "m.onnx", search=False)
