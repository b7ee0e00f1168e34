# SPDX-License-Identifier: Apache-2.0
"""Divisions by constants become multiplications where a reciprocal exists."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

import tvm_ios
from support.networks import relax_module
from tvm_ios.rewrite.prepare import prepare
from tvm_ios.rewrite.reciprocals import multiply_by_reciprocals

op = relax.op
SHAPE = (3, 7)
VALUES = np.array([[1.5, -2.25, 0.0, -0.0, np.inf, -np.inf, np.nan]] * 3, "float32")


def divided_by(constant: np.ndarray) -> relax.Expr:
    return relax_module(
        lambda emit, x: emit(op.divide(x, relax.const(constant))),
        relax.TensorType(SHAPE, str(constant.dtype)),
    )


def operators(constant: np.ndarray) -> str:
    mod = divided_by(constant)
    return multiply_by_reciprocals(mod, mod["main"]).script()


@pytest.mark.parametrize("constant", [np.float32(2**0.5), np.linspace(-3, 3, 7, dtype="float32")])
def test_a_division_by_a_constant_multiplies(constant: np.ndarray) -> None:
    constant = np.where(constant == 0, np.float32(0.5), constant)
    assert "divide" not in operators(constant)
    actual = tvm_ios.compile(divided_by(constant), search=False, threads=1)(VALUES)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(actual, VALUES / constant, rtol=2.0**-22)


@pytest.mark.parametrize("constant", [1e-45, 1e-39, 3e38])
def test_subnormal_factors_are_not_used(constant: float) -> None:
    divisor = np.array(constant, "float32")
    assert "multiply" not in operators(divisor)
    assert_divided(divisor)


def test_one_such_element_is_enough() -> None:
    assert "multiply" not in operators(np.array([2, 2, 2, 3e38, 2, 2, 2], "float32"))


@pytest.mark.parametrize("constant", [0.0, -0.0, np.inf, -np.inf, np.nan])
def test_zero_and_infinity_have_exact_reciprocals(constant: float) -> None:
    """TVM's constant folding fails on a division by a constant zero."""
    assert_divided(np.array(constant, "float32"))


def assert_divided(divisor: np.ndarray) -> None:
    actual = tvm_ios.compile(divided_by(divisor), search=False, threads=1)(VALUES)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(actual, VALUES / divisor)


def test_integers_are_divided() -> None:
    assert "multiply" not in operators(np.array(7, "int32"))


def test_networks_are_prepared_so() -> None:
    prepared = prepare(divided_by(np.array(3, "float32")), "main", checks_indices=True)
    assert "divide" not in prepared.script()
