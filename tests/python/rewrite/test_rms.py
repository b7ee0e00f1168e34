# SPDX-License-Identifier: Apache-2.0
"""Tensors over the roots of the means of their squares, as exporters of language models do it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.exported import Exported

RNG = np.random.default_rng(0)
SHAPE = (2, 5, 37)


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


CONSTANTS = {
    "epsilon": np.float32(1e-5),
    "small": np.float32(1e-6),
    "one": np.float32(1),
    "two": np.float32(2),
    "root": np.float32(-0.5),
    "count": np.float32(37),
    "last": np.array([-1]),
    "rows": np.array([1, 2]),
    "g": numbers(37),
    "plane": numbers(5, 37),
    "of_rows": numbers(5, 1),
    "b": numbers(37),
}
MEAN = "q = Mul(x, x) v = ReduceMean<axes = [-1]>(q) w = Add(v, epsilon) "
ROOT = MEAN + "s = Sqrt(w) "

RAISED = {
    "divided": (ROOT + "z = Div(x, s) y = Mul(g, z)", []),
    "by a reciprocal": (ROOT + "r = Reciprocal(s) z = Mul(x, r) y = Mul(z, g)", []),
    "by an inverse": (ROOT + "r = Div(one, s) z = Mul(x, r) y = Mul(z, g)", []),
    "by a power": (
        "q = Pow(x, two) v = ReduceMean<axes = [-1]>(q) w = Add(v, epsilon) r = Pow(w, root) "
        "z = Mul(x, r) y = Mul(z, g)",
        [],
    ),
    "of a sum": (
        "q = Mul(x, x) t = ReduceSum(q, last) v = Div(t, count) w = Add(v, epsilon) s = Sqrt(w) "
        "z = Div(x, s) y = Mul(g, z)",
        [],
    ),
    "factor first": (ROOT + "r = Reciprocal(s) f = Mul(g, x) y = Mul(f, r)", []),
    "no factor": (ROOT + "y = Div(x, s)", []),
    "an offset": (ROOT + "z = Div(x, s) a = Mul(g, z) y = Add(b, a)", ["add"]),
    "a factor of rows": (ROOT + "z = Div(x, s) y = Mul(of_rows, z)", ["multiply"]),
    "planes": (
        "q = Mul(x, x) v = ReduceMean<axes = [1, 2]>(q) w = Add(v, epsilon) s = Sqrt(w) "
        "z = Div(x, s) y = Mul(plane, z)",
        [],
    ),
    "and an activation": (ROOT + "z = Div(x, s) f = Mul(g, z) y = Tanh(f)", ["tanh"]),
}


@pytest.mark.parametrize("name", RAISED)
def test_a_normalisation_by_squares_is_one_operator(name: str, tmp_path: Path) -> None:
    nodes, others = RAISED[name]
    exported = Exported(nodes, {"x": SHAPE}, CONSTANTS)
    assert exported.operators(tmp_path) == ["nn.rms_norm", *others]
    exported.check(tmp_path)


@pytest.mark.parametrize("shape", [(1, 1, 37), (3, 1, 37), (1, 1, 5, 37)])
def test_other_shapes(shape: tuple[int, ...], tmp_path: Path) -> None:
    exported = Exported(RAISED["divided"][0], {"x": shape}, CONSTANTS)
    assert "nn.rms_norm" in exported.operators(tmp_path)
    exported.check(tmp_path)


def test_any_number_of_rows(tmp_path: Path) -> None:
    exported = Exported(RAISED["divided"][0], {"x": ("n", "t", 37)}, CONSTANTS)
    exported.check(tmp_path, 0, 1e-5, {"n": 1, "t": 1}, {"n": 2, "t": 7}, {"n": 5, "t": 33})


STAYING = {
    "no small number": "q = Mul(x, x) v = ReduceMean<axes = [-1]>(q) s = Sqrt(v) y = Div(x, s)",
    "another tensor": "n = Tanh(x) " + ROOT + "y = Div(n, s)",
    "fourth powers": MEAN.replace("Mul(x, x)", "Mul(o, o)").replace("q =", "o = Mul(x, x) q =")
    + "s = Sqrt(w) y = Div(x, s)",
    "less a mean": ROOT + "m = ReduceMean<axes = [-1]>(x) d = Sub(x, m) y = Div(d, s)",
    "a variance": "m = ReduceMean<axes = [-1]>(x) d = Sub(x, m) q = Mul(d, d) "
    "v = ReduceMean<axes = [-1]>(q) w = Add(v, epsilon) s = Sqrt(w) y = Div(x, s)",
    "two small numbers": ROOT + "u = Add(v, small) k = Sqrt(u) d = Mul(s, k) y = Div(x, d)",
    "first axes": ROOT.replace("[-1]", "[0]") + "y = Div(x, s)",
}


@pytest.mark.parametrize("name", STAYING)
def test_what_only_looks_like_it_stays(name: str, tmp_path: Path) -> None:
    exported = Exported(STAYING[name], {"x": SHAPE}, CONSTANTS)
    assert not any("norm" in operator for operator in exported.operators(tmp_path))
    exported.check(tmp_path, tolerance=2e-5)
