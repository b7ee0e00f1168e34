# SPDX-License-Identifier: Apache-2.0
"""Activations without a kernel, and those that are composed of slower functions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tvm_ios
from support.exported import Exported

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


@pytest.mark.parametrize("shape", [(6, 1, 1), (7,), (1, 1, 5, 1), (1,)], ids=str)
def test_slopes_join_the_operator_before(shape: tuple[int, ...], tmp_path: Path) -> None:
    slopes = {"slopes": RNG.standard_normal(shape, "float32")}
    exported = Exported("y = PRelu(x, slopes)", {"x": SHAPE}, slopes)
    assert "nn.prelu" not in exported.operators(tmp_path)
    exported.check(tmp_path)


def test_slopes_of_numbers_that_are_not_finite(tmp_path: Path) -> None:
    slopes = {"slopes": np.array([0.5, 2, -1, 3], "float32")}
    x = np.array([[np.inf, -np.inf, np.nan, -1], [-np.inf, np.nan, np.inf, 2]], "float32")
    path = Exported("y = PRelu(x, slopes)", {"x": x.shape}, slopes).save(tmp_path)
    expected = np.where(x < 0, x * slopes["slopes"], x)
    np.testing.assert_array_equal(tvm_ios.compile(str(path), search=False)(x), expected)


@pytest.mark.parametrize("slope", [np.inf, np.nan], ids=str)
def test_slopes_that_are_not_finite_stay(slope: float, tmp_path: Path) -> None:
    slopes = {"slopes": np.array([slope, 1, 2, 3, 4, 5, 6], "float32")}
    assert "nn.prelu" in Exported("y = PRelu(x, slopes)", {"x": SHAPE}, slopes).operators(tmp_path)
