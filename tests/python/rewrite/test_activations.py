# SPDX-License-Identifier: Apache-2.0
"""Activations without a kernel, and those that are composed of slower functions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

import tvm_ios
from support.exported import Exported
from support.networks import check_scheduled, relax_module
from tvm_ios.relax_ir.expressions import op_name
from tvm_ios.rewrite.prepare import prepare

RNG = np.random.default_rng(0)
SHAPE = (2, 6, 5, 7)
CONSTANTS = {"one": np.float32(1), "two": np.float32(2)}

MISHES = {
    "a softplus": "s = Softplus(x) t = Tanh(s) y = Mul(x, t)",
    "a logarithm": "e = Exp(x) o = Add(one, e) s = Log(o) t = Tanh(s) y = Mul(t, x)",
}


@pytest.mark.parametrize("name", MISHES)
def test_mish_is_a_quotient(name: str, tmp_path: Path) -> None:
    exported = Exported(MISHES[name], {"x": SHAPE}, CONSTANTS)
    assert not {"tanh", "log"} & set(exported.operators(tmp_path))
    exported.check(tmp_path)


def test_mish_of_large_and_small_numbers(tmp_path: Path) -> None:
    path = Exported(MISHES["a softplus"], {"x": (9,)}).save(tmp_path)
    x = np.array([-np.inf, -1e30, -90, -30, 0, 19.5, 20.5, 90, 1e30], "float32")
    with np.errstate(over="ignore", invalid="ignore"):
        expected = x.astype("float64") * np.tanh(np.log1p(np.exp(x.astype("float64"))))
    found = tvm_ios.compile(str(path), search=False)(x)
    np.testing.assert_allclose(found[1:], expected[1:], rtol=1e-6, atol=1e-30)


OTHERS = {
    "two": MISHES["a logarithm"].replace("one", "two"),
    "another tensor": MISHES["a softplus"].replace("Mul(x, t)", "Mul(s, t)"),
    "another tensor inside": "n = Neg(x) "
    + MISHES["a softplus"].replace("Softplus(x", "Softplus(n"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_only_looks_like_mish_stays(name: str, tmp_path: Path) -> None:
    exported = Exported(OTHERS[name], {"x": SHAPE}, CONSTANTS)
    assert "tanh" in exported.operators(tmp_path)
    exported.check(tmp_path)


def with_slopes(slopes: np.ndarray, axis: int) -> tvm.IRModule:
    """PyTorch's and Relay's activation, which ONNX's is not."""

    def body(emit: Callable[[relax.Expr], relax.Expr], x: relax.Expr) -> relax.Expr:
        return emit(relax.op.nn.prelu(x, relax.const(slopes), axis))

    return relax_module(body, SHAPE)


@pytest.mark.parametrize(("size", "axis"), [(6, 1), (7, -1), (5, 2)], ids=str)
def test_slopes_join_the_operator_before(size: int, axis: int) -> None:
    mod = with_slopes(RNG.standard_normal(size, "float32"), axis)
    names: list[str] = []
    relax.analysis.post_order_visit(prepare(mod)["main"], lambda e: names.append(op_name(e)))
    assert "nn.prelu" not in names
    check_scheduled(mod)


def test_slopes_and_numbers_that_are_not_finite() -> None:
    slopes = np.array([np.inf, np.nan, -1, 0, 2], "float32")
    x = RNG.standard_normal(SHAPE, "float32")
    x[0, 0], x[1, 1], x[0, 2], x[1, 3] = np.inf, -np.inf, np.nan, 0
    with np.errstate(invalid="ignore"):
        expected = np.where(x < 0, x * slopes[:, None], x)
    found = tvm_ios.compile(with_slopes(slopes, 2), search=False)(x)
    np.testing.assert_array_equal(found, expected)
