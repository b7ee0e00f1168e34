# SPDX-License-Identifier: Apache-2.0
"""Every elementwise function, on scalars and on vectors of each width, against NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.special
from tvm import tirx

from support.elementwise import compute, program_of, units_off
from tvm_ios.backend.cpu.isa.elementwise import FUNCTIONS
from tvm_ios.backend.cpu.isa.epilogue import apply_epilogue
from tvm_ios.graph.recognise import ELEMENTWISE
from tvm_ios.ops.epilogue import Epilogue, Operand, Step

REFERENCES: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "power": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "clip": np.clip,
    "leaky_relu": lambda x, slope: np.where(x > 0, x, slope * x),
    "negative": np.negative,
    "abs": np.abs,
    "round": np.rint,
    "square": np.square,
    "exp": np.exp,
    "log": np.log,
    "sin": np.sin,
    "cos": np.cos,
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
BINARY = {"add", "subtract", "multiply", "divide", "power", "maximum", "minimum"}
CONSTANTS = {"clip": (-0.75, 1.5), "leaky_relu": (0.1,)}
SIZE = 256


def samples(positive: bool) -> tuple[np.ndarray, np.ndarray]:
    """Numbers from -12 to 12, or from nearly zero up to 12."""
    random = np.random.default_rng(0)
    x = np.linspace(1e-3 if positive else -12, 12, SIZE)
    return random.permutation(x).astype("float32"), random.uniform(0.5, 2, SIZE).astype("float32")


@pytest.mark.parametrize("lanes", [1, 4, 16])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, lanes: int) -> None:
    x, y = samples(name in POSITIVE)
    constants = CONSTANTS.get(name, ())
    arguments = [y] if name in BINARY else []
    expected = REFERENCES[name](x.astype("float64"), *arguments, *constants)
    actual = compute(program_of(name, len(arguments), constants), lanes, x, y)
    np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=2e-6)


RELATIVE_ERRORS = {"exp": 1.1e-7, "sigmoid": 1.5e-7, "tanh": 2.5e-7, "erf": 2.5e-7}
ABSOLUTE_ERRORS = {"gelu": 4e-7}
NEAR_ZERO = np.geomspace(1e-30, 1e-2, SIZE // 4)
SPREAD = np.concatenate([NEAR_ZERO, -NEAR_ZERO, np.linspace(-9, 9, SIZE // 2)]).astype("float32")


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("name", [*RELATIVE_ERRORS, *ABSOLUTE_ERRORS])
def test_errors_are_as_stated(name: str, lanes: int) -> None:
    expected = REFERENCES[name](SPREAD.astype("float64"))
    actual = compute(program_of(name), lanes, SPREAD)
    relative, absolute = RELATIVE_ERRORS.get(name, 0), ABSOLUTE_ERRORS.get(name, 0)
    np.testing.assert_allclose(actual, expected, rtol=relative, atol=absolute)


ANGLES = np.concatenate([
    NEAR_ZERO, -NEAR_ZERO, np.linspace(-10, 10, SIZE // 4), np.linspace(-8192, 8192, SIZE // 4)
])  # fmt: skip
QUARTERS = np.pi / 2 * np.arange(1, SIZE + 1) * 20 - np.pi / 2 * 20 * (SIZE // 2)
UNITS: dict[str, list[np.ndarray]] = {
    "log": [np.geomspace(1e-44, 3e38, SIZE), np.linspace(0.5, 2, SIZE), 1 + SPREAD / 1e4],
    "sin": [ANGLES, QUARTERS, 1e4 * ANGLES],
    "cos": [ANGLES, QUARTERS, 1e4 * ANGLES],
}


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("name", UNITS)
def test_units_in_the_last_place(name: str, lanes: int) -> None:
    for numbers in UNITS[name]:
        x = numbers.astype("float32")
        expected = REFERENCES[name](x.astype("float64"))
        assert units_off(compute(program_of(name), lanes, x), expected).max() < 0.9


@pytest.mark.parametrize("name", UNITS)
def test_largest_errors(name: str) -> None:
    """Of numbers of all magnitudes, in units in the last place."""
    most = np.float32(np.inf if name == "log" else 8192).view("uint32")
    x = np.random.default_rng(0).integers(1, most, 1 << 18, "uint32").view("float32")
    expected = REFERENCES[name](x.astype("float64"))
    assert units_off(compute(program_of(name), 16, x), expected).max() < 0.9


EXTREMES = [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e10, -1e10, 100, -100, 88.7, -86.9, 0.0]


@pytest.mark.filterwarnings("ignore:overflow|invalid|divide")
@pytest.mark.parametrize("name", ["exp", "log", "sin", "cos", "sigmoid", "tanh", "erf", "gelu"])
def test_extremes(name: str) -> None:
    x = np.resize(np.array(EXTREMES, "float32"), SIZE)
    expected = REFERENCES[name](x.astype("float64")).astype("float32")
    if name == "gelu":
        expected[x == -np.inf] = 0.0  # where NumPy has inf * 0
    actual = compute(program_of(name), 16, x)
    np.testing.assert_allclose(actual, expected, rtol=3e-6, atol=2e-38)


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
