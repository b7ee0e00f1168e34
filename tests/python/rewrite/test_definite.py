# SPDX-License-Identifier: Apache-2.0
"""Arithmetic that C leaves open has NumPy's results, or those that are written down."""

from __future__ import annotations

import ml_dtypes  # noqa: F401  (NumPy knows bfloat16 by it)
import numpy as np
import pytest
from tvm import relax

import tvm_ios
from support.networks import relax_module
from tvm_ios.rewrite.prepare import prepare

op = relax.op
SIGNED, UNSIGNED = ["int8", "int16", "int32", "int64"], ["uint8", "uint32", "uint64"]


def _run(body, *arrays: np.ndarray) -> list[np.ndarray]:
    types = [relax.TensorType(a.shape, str(a.dtype)) for a in arrays]
    mod = relax_module(lambda emit, *x: relax.Tuple([emit(e) for e in body(*x)]), *types)
    results = tvm_ios.compile(mod, search=False, threads=1)(*arrays)
    return list(results) if isinstance(results, tuple) else [results]


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_divisions(dtype: str) -> None:
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    signed = dtype in SIGNED
    x = np.array([7, 0, least, most, 5, least, most], dtype)
    y = np.array([0, 0, -1 if signed else 1, 1, 3, 0, -1 if signed else 2], dtype)
    quotient, floored, rest, modulo = _run(
        lambda a, b: [op.divide(a, b), op.floor_divide(a, b), op.mod(a, b), op.floor_mod(a, b)],
        x, y,
    )  # fmt: skip
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(floored, x // y)
        np.testing.assert_array_equal(modulo, x % y)
    np.testing.assert_array_equal(quotient, floored)  # all are exact, or of positive numbers
    np.testing.assert_array_equal(rest, modulo)


@pytest.mark.parametrize("divisors", [[2, 0, -1, 4], [2, 3, 5, 4]])
def test_constant_divisors(divisors: list[int]) -> None:
    x, y = np.array([7, 7, -(2**31), -8], "int32"), np.array(divisors, "int32")
    (result,) = _run(lambda a: [op.floor_divide(a, relax.const(y))], x)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(result, x // y)


@pytest.mark.parametrize("dtype", SIGNED)
def test_shifts(dtype: str) -> None:
    width = np.iinfo(dtype).bits
    x = np.array([5, -5, 5, -5, -7, 3], dtype)
    y = np.array([1, 1, -1, -1, width, width + 3], dtype)
    left, right = _run(lambda a, b: [op.left_shift(a, b), op.right_shift(a, b)], x, y)
    np.testing.assert_array_equal(left, [10, -10, 0, 0, 0, 0])
    np.testing.assert_array_equal(right, [2, -3, 0, -1, -1, 0])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_casts(dtype: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, -1.5, 300.7, -129.2]).astype(dtype)
    byte, word, long = _run(lambda a: [op.astype(a, t) for t in ("int8", "uint16", "int64")], x)
    np.testing.assert_array_equal(byte, [0, 0, 0, -1, 44, 127])
    np.testing.assert_array_equal(word, [0, 0, 0, 65535, 300, 65407])
    np.testing.assert_array_equal(long, [0, 0, 0, -1, 300, -129])


def test_casts_to_the_widest_unsigned_integers() -> None:
    x = np.array([np.nan, -1.5, -1280, 2.0**63, 2.0**63 + 2.0**40, -(2.0**63) - 2.0**41, 2.0**65])
    (result,) = _run(lambda a: [op.astype(a, "uint64")], np.tile(x.astype("float32"), (5, 1)))
    wanted = [0 if np.isnan(number) else int(number) % 2**64 for number in x]
    np.testing.assert_array_equal(result, np.tile(np.array(wanted, "uint64"), (5, 1)))


def test_a_cast_of_a_limited_number_stays_one_step() -> None:
    mod = relax_module(
        lambda emit, x: emit(op.astype(emit(op.clip(x, -128.0, 127.0)), "int8")), (4, 5)
    )
    bindings = prepare(mod)["main"].body.blocks[0].bindings
    assert [b.value.op.name for b in bindings[:2]] == ["relax.clip", "relax.astype"]


@pytest.mark.parametrize("dtype", ["float32", "float64", *SIGNED, *UNSIGNED])
def test_places_and_values_of_extremes(dtype: str) -> None:
    """Of rows of nothing but the least, or the largest, number."""
    limits = [-np.inf, np.inf] if "float" in dtype else [np.iinfo(dtype).min, np.iinfo(dtype).max]
    x = np.repeat(np.array(limits, dtype)[:, None], 5, 1)
    found = _run(lambda a: [f(a, axis=1) for f in (op.max, op.min, op.argmax, op.argmin)], x)
    wanted = [f(x, axis=1) for f in (np.max, np.min, np.argmax, np.argmin)]
    for result, right in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(result, right)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_the_place_of_an_extreme_is_that_of_the_first_nan(axis: int | None, dtype: str) -> None:
    x = np.random.default_rng(0).choice([np.nan, np.inf, -np.inf, 1, 2, -3], (5, 7)).astype(dtype)
    x[2] = -np.inf
    most, least = _run(lambda a: [f(a, axis=axis) for f in (op.argmax, op.argmin)], x)
    np.testing.assert_array_equal(most, np.argmax(x, axis))
    np.testing.assert_array_equal(least, np.argmin(x, axis))


def test_a_maximum_of_constants_reaches_minus_infinity() -> None:
    held = relax.const(np.full((2, 3), -np.inf, "float32"))
    mod = relax_module(lambda emit, x: emit(op.add(x, emit(op.max(held, axis=1)))), (2,))
    result = tvm_ios.compile(mod, search=False, threads=1)(np.ones(2, "float32"))
    np.testing.assert_array_equal(result, [-np.inf, -np.inf])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_what_is_no_number_differs_from_itself(dtype: str) -> None:
    x = np.array([np.nan, 1, np.nan, 2, np.inf, -np.inf, -0.0], dtype)
    y = np.array([np.nan, 1, 2, np.nan, np.inf, np.inf, 0.0], dtype)
    comparisons = {op.not_equal: np.not_equal, op.equal: np.equal, op.less_equal: np.less_equal}
    results = _run(lambda a, b: [f(a, other) for f in comparisons for other in (a, b)], x, y)
    rights = [f(x, other) for f in comparisons.values() for other in (x, y)]
    for result, right in zip(results, rights, strict=True):
        np.testing.assert_array_equal(result, right)
