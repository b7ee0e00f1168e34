# SPDX-License-Identifier: Apache-2.0
"""Powers of any numbers, on each instruction set, against NumPy's in long double."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import tvm

from support.elementwise import compute, program_of, units_off
from support.networks import TARGETS
from tvm_ios.backend.cpu.core import core_of

SIZE = 1 << 16
SPECIAL = np.array(
    [
        *(0.0, 1.0, 2.0, 0.5, 3.0, 1.5, 2.5, 1 / 3, np.inf, 1e-45, 1e-38, 3.4e38, 1e10),
        *(2.0**24 - 1, 2.0**24, 2.0**25, 2.0**22 + 0.5, 1 - 2.0**-24, 1 + 2.0**-23),
    ],
    "float32",
)
NUMBERS = np.concatenate([SPECIAL, -SPECIAL, [np.float32(np.nan)]])


def expected_power(x: np.ndarray, y: np.ndarray | float) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.power(x.astype("longdouble"), np.asarray(y, "float32").astype("longdouble"))


def check(actual: np.ndarray, expected: np.ndarray, limit: float) -> None:
    """Compare values, and the signs of zeros and infinities."""
    with np.errstate(over="ignore"):
        rounded = expected.astype("float32")
    special = ~np.isfinite(rounded) | (rounded == 0)
    np.testing.assert_array_equal(actual[special], rounded[special])
    known = ~np.isnan(rounded)
    np.testing.assert_array_equal(np.signbit(actual[known]), np.signbit(rounded[known]))
    assert units_off(actual, expected).max(initial=0) <= limit


def of_any_size(random: np.random.Generator) -> np.ndarray:
    """Numbers of any bits."""
    return random.integers(0, 1 << 32, SIZE, "uint32").view("float32")


@pytest.mark.parametrize("target", TARGETS)
def test_powers(target: tvm.target.Target) -> None:
    random = np.random.default_rng(0)
    logarithms = random.uniform(-151, 129, SIZE)  # of results that float32 holds
    size = np.abs(of_any_size(random))
    size[~np.isfinite(size) | (size == 0)] = 2
    near = random.uniform(0.5, 2, SIZE).astype("float32")
    whole = random.integers(-20, 20, SIZE).astype("float32")
    pairs = [
        (x, (logarithms / np.log2(x, dtype="float64")).astype("float32")) for x in (size, near)
    ]
    pairs += [(random.uniform(-9, 9, SIZE).astype("float32"), whole)]
    pairs += [(of_any_size(random), of_any_size(random))]
    for x, y in pairs:
        actual = compute(program_of("power", 1), core_of(target).lanes, x, y, target)
        check(actual, expected_power(x, y), 0.6)


@pytest.mark.parametrize("lanes", [1, 16])
def test_special_numbers(lanes: int) -> None:
    x, y = np.array(list(product(NUMBERS, NUMBERS)), "float32").T
    x, y = (np.resize(a, -(-a.size // 16) * 16) for a in (x, y))
    check(compute(program_of("power", 1), lanes, x, y), expected_power(x, y), 0.6)


@pytest.mark.parametrize("exponent", [*range(-4, 6), 7, 64, 65, -9, 0.5, -0.5, 1 / 3, 2.2, -1.5])
@pytest.mark.parametrize("target", TARGETS)
def test_constant_exponents(target: tvm.target.Target, exponent: float) -> None:
    exponent = float(np.float32(exponent))
    random = np.random.default_rng(1)
    near = random.uniform(-9, 9, 1 << 12).astype("float32")
    x = np.resize(np.concatenate([NUMBERS, near, of_any_size(random)]), SIZE)
    program = program_of("power", constants=[exponent])
    actual = compute(program, core_of(target).lanes, x, target=target)
    check(actual, expected_power(x, exponent), 2.0)


@pytest.mark.parametrize("exponent", [np.inf, -np.inf, np.nan])
def test_constant_exponents_that_are_no_numbers(exponent: float) -> None:
    x = np.resize(NUMBERS, SIZE)
    actual = compute(program_of("power", constants=[exponent]), 16, x)
    check(actual, expected_power(x, exponent), 0)


def test_powers_of_two_are_exact() -> None:
    y = np.arange(-160, 160, dtype="float32")
    actual = compute(program_of("power", 1), 16, np.full_like(y, 2), y)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(actual, np.exp2(y.astype("float64")).astype("float32"))
