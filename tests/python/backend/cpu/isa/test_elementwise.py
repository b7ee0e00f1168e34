# SPDX-License-Identifier: Apache-2.0
"""Every elementwise function, on scalars and on vectors of each width, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.special
import tvm
from tvm import tirx

from support.aarch64 import NEON, run_by_qemu
from support.elementwise import compute, program_of, units_off
from support.networks import NATIVE, TARGETS
from tvm_ios.backend.cpu.core import core_of
from tvm_ios.backend.cpu.isa.elementwise import FUNCTIONS
from tvm_ios.backend.cpu.isa.epilogue import apply_epilogue
from tvm_ios.backend.cpu.kernels.rows.strided import strided_kernel
from tvm_ios.backend.cpu.kernels.rows.strided_axes import StridedMap
from tvm_ios.graph.recognise import CONDITIONS, ELEMENTWISE
from tvm_ios.ops.epilogue import Epilogue, Operand, Step
from tvm_ios.ops.strides import Strides

REFERENCES: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "power": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "where": lambda x, chosen, other: np.where(x != 0, chosen, other),
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "clip": np.clip,
    "leaky_relu": lambda x, slope: np.where(x > 0, x, slope * x),
    "negative": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "round": np.rint,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "square": np.square,
    "exp": np.exp,
    "log": np.log,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "tanh": np.tanh,
    "sigmoid": scipy.special.expit,
    "silu": lambda x: x * scipy.special.expit(x),
    "erf": scipy.special.erf,
    "gelu": lambda x: x * scipy.special.ndtr(x),
    "gelu_tanh": lambda x: x * scipy.special.expit((8 / np.pi) ** 0.5 * (x + 0.044715 * x**3)),
}
POSITIVE = {"log", "power", "sqrt", "rsqrt"}
ARITHMETIC = {"add", "subtract", "multiply", "divide", "power", "maximum", "minimum"}
BINARY = {*ARITHMETIC, *CONDITIONS}
CONSTANTS = {"clip": (-0.75, 1.5), "leaky_relu": (0.1,), "where": (0.25, -3.0)}
SIZE = 256
WIDEST = core_of(NATIVE).lanes


def samples(positive: bool) -> tuple[np.ndarray, np.ndarray]:
    """Numbers from -12 to 12, or from nearly zero up to 12."""
    random = np.random.default_rng(0)
    x = np.linspace(1e-3 if positive else -12, 12, SIZE)
    return random.permutation(x).astype("float32"), random.uniform(0.5, 2, SIZE).astype("float32")


@pytest.mark.filterwarnings("ignore:invalid")
@pytest.mark.parametrize("lanes", [1, 4, WIDEST])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, lanes: int) -> None:
    x, y = samples(name in POSITIVE)
    constants = CONSTANTS.get(name, ())
    arguments = [y] if name in BINARY else []
    expected = REFERENCES[name](x.astype("float64"), *arguments, *constants)
    actual = compute(program_of(name, len(arguments), constants), lanes, x, y)
    np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=2e-6)


UNITS = {
    "exp": 1.2, "log": 0.9, "sqrt": 0.5, "rsqrt": 1.5, "sigmoid": 1.8, "erf": 1.8,
    "sin": 0.9, "cos": 0.9, "tan": 1.8, "asin": 1.4, "acos": 1.7, "atan": 1.3,
    "sinh": 1.8, "cosh": 1.4, "tanh": 1.4, "asinh": 0.6, "acosh": 0.6, "atanh": 0.6,
}  # fmt: skip
"""The largest errors, in units in the last place."""
LARGE_ANGLES = {"sin": 8192, "cos": 8192, "tan": 8192}
"""From where on the C library computes functions."""
LEAST = 1e-37  # below which results of what is made of exponential functions may be zero


def numbers_of(name: str, count: int) -> np.ndarray:
    """Numbers of any size, half of them from -90 to 90 or from -1 to 1."""
    random = np.random.default_rng(0)
    spread = random.integers(0, 1 << 32, count // 2, "uint32").view("float32")
    ranges = [random.uniform(-m, m, count // 4).astype("float32") for m in (90, 1)]
    x = np.concatenate([spread, *ranges])
    return np.where(np.abs(x) < LARGE_ANGLES.get(name, np.inf), x, np.float32(0.5))


def check_units(name: str, x: np.ndarray, actual: np.ndarray) -> None:
    """Check errors, infinities and NaN."""
    with np.errstate(all="ignore"):
        expected = REFERENCES[name](x.astype("float64"))
        rounded = expected.astype("float32")
    special = ~np.isfinite(rounded)
    np.testing.assert_array_equal(actual[special], rounded[special])
    small = (np.abs(expected) < LEAST) & (name != "exp")
    np.testing.assert_allclose(actual[small], expected[small], rtol=2e-7, atol=2e-38)
    assert units_off(actual[~small], expected[~small]).max() <= UNITS[name]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", UNITS)
def test_errors_are_as_stated(name: str, target: tvm.target.Target) -> None:
    x = numbers_of(name, 1 << 18)
    actual = compute(program_of(name), core_of(target).lanes, x, target=target)
    check_units(name, x, actual)


@pytest.mark.parametrize("name", UNITS)
def test_errors_of_single_numbers(name: str) -> None:
    x = numbers_of(name, 1 << 12)
    check_units(name, x, compute(program_of(name), 1, x))


@pytest.mark.parametrize("name", ["tan", "asin", "erf", "sinh", "atanh"])
def test_neon(name: str, tmp_path: Path) -> None:
    x, target = numbers_of(name, 1 << 12), tvm.target.Target(NEON)
    flat = StridedMap(x.shape, Strides(x.size, (1,)), program_of(name))
    (actual,) = run_by_qemu(strided_kernel(flat, core_of(target)), [x], target, tmp_path)
    check_units(name, x, actual)


NEAR_ZERO = np.geomspace(1e-30, 1e-2, SIZE // 4)
SPREAD = np.concatenate([NEAR_ZERO, -NEAR_ZERO, np.linspace(-9, 9, SIZE // 2)]).astype("float32")


@pytest.mark.parametrize("lanes", [1, 8])
def test_the_error_of_gelu_is_as_stated(lanes: int) -> None:
    expected = REFERENCES["gelu"](SPREAD.astype("float64"))
    actual = compute(program_of("gelu"), lanes, SPREAD)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=4e-7)


ANGLES = np.concatenate([
    NEAR_ZERO, -NEAR_ZERO, np.linspace(-10, 10, SIZE // 4), np.linspace(-8192, 8192, SIZE // 4)
])  # fmt: skip
QUARTERS = np.pi / 2 * np.arange(1, SIZE + 1) * 20 - np.pi / 2 * 20 * (SIZE // 2)
CRITICAL: dict[str, list[np.ndarray]] = {
    "exp": [np.linspace(-104, -86, SIZE), np.linspace(88, 89, SIZE)],
    "log": [np.geomspace(1e-44, 3e38, SIZE), np.linspace(0.5, 2, SIZE), 1 + SPREAD / 1e4],
    "sin": [ANGLES, QUARTERS, 1e4 * ANGLES],
    "cos": [ANGLES, QUARTERS, 1e4 * ANGLES],
    "tan": [ANGLES, QUARTERS, 1e4 * ANGLES],
    "sigmoid": [np.linspace(-16.8, -16.5, 1 << 16)],
    "acosh": [1 + np.abs(SPREAD) / 1e4],
}
"""Numbers of which something is nearly cancelled, or on both sides of a bound."""


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("name", CRITICAL)
def test_critical_numbers(name: str, lanes: int) -> None:
    for numbers in CRITICAL[name]:
        x = numbers.astype("float32")
        check_units(name, x, compute(program_of(name), lanes, x))


EXTREMES = [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e10, -1e10, 100, -100, 88.7, -86.9, 0.0]


@pytest.mark.filterwarnings("ignore:overflow|invalid|divide")
@pytest.mark.parametrize("name", [*UNITS, "gelu"])
def test_extremes(name: str) -> None:
    x = np.resize(np.array(EXTREMES, "float32"), SIZE)
    expected = REFERENCES[name](x.astype("float64")).astype("float32")
    if name == "gelu":
        expected[x == -np.inf] = 0.0  # where NumPy has inf * 0
    actual = compute(program_of(name), WIDEST, x)
    np.testing.assert_allclose(actual, expected, rtol=3e-6, atol=2e-38)


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_of_equal_numbers_and_of_nan(name: str) -> None:
    x = np.resize(np.array(EXTREMES, "float32"), SIZE)
    for y in (x, np.roll(x, 1)):
        actual = compute(program_of(name, 1), WIDEST, x, y)
        np.testing.assert_array_equal(actual, REFERENCES[name](x, y))
    twice = Epilogue((Step(name, (Operand("value", 0), Operand("value", 0))),))
    np.testing.assert_array_equal(compute(twice, WIDEST, x), REFERENCES[name](x, x))


def test_signs() -> None:
    x = np.resize(np.array([*EXTREMES, -0.0, 1e-45], "float32"), SIZE)
    actual = compute(program_of("sign"), WIDEST, x)
    np.testing.assert_array_equal(actual, np.nan_to_num(np.sign(x)))


def test_every_function_has_a_reference_and_can_be_recognised() -> None:
    assert set(REFERENCES) == set(FUNCTIONS)
    assert set(ELEMENTWISE.values()) == set(FUNCTIONS)


@pytest.mark.parametrize("lanes", [1, 16])
def test_values_arguments_and_constants_can_be_read_repeatedly(lanes: int) -> None:
    """``(x * y - 3) * y + x``, and its square."""
    value, argument = (lambda i: Operand("value", i)), Operand("argument", 0)
    steps = (
        Step("multiply", (value(0), argument)),
        Step("subtract", (value(1), Operand("constant", 3.0))),
        Step("multiply", (argument, value(2))),
        Step("add", (value(3), value(0))),
        Step("multiply", (value(4), value(4))),
    )
    x, y = samples(positive=False)
    actual = compute(Epilogue(steps, ("full",)), lanes, x, y)
    np.testing.assert_allclose(actual, ((x * y - 3) * y + x) ** 2, rtol=1e-5)


def test_an_empty_program_passes_the_anchor_on() -> None:
    x, _ = samples(positive=False)
    np.testing.assert_array_equal(compute(Epilogue(), 16, x), x)
    assert isinstance(
        apply_epilogue(Epilogue(), tirx.const(1.0, "float32"), lambda _: None, 1), tirx.FloatImm
    )
