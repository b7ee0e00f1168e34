# SPDX-License-Identifier: Apache-2.0
"""Cases of elementwise operators, reductions, and tensors made of numbers."""

from __future__ import annotations

import numpy as np
from scipy import special

from support.relay.cases import Case, Known, case, rand, whole


def _number(value: float, dtype: str = "float32") -> Known:
    return Known(np.array(value, dtype))


def _unary() -> list[Case]:
    x, near, positive = rand(3, 5, low=-2, high=2), rand(3, 5), rand(3, 5, low=0.2, high=3)
    strange = np.array([0.5, np.inf, -np.inf, np.nan], "float32")
    truth = whole(3, 5, high=2, dtype="bool")
    halves = np.array([0.5, 1.5, 2.5, -0.5, -2.5, 1.2, -1.7], "float32")
    functions = {
        "abs": np.abs, "acos": np.arccos, "asin": np.arcsin, "asinh": np.arcsinh,
        "atan": np.arctan, "atanh": np.arctanh, "ceil": np.ceil, "cos": np.cos, "cosh": np.cosh,
        "erf": special.erf, "exp": np.exp, "fast_erf": special.erf, "fast_exp": np.exp,
        "fast_tanh": np.tanh, "floor": np.floor, "negative": np.negative,
        "sigmoid": special.expit, "sign": np.sign, "sin": np.sin, "sinh": np.sinh,
        "tan": np.tan, "tanh": np.tanh, "trunc": np.trunc,
    }  # fmt: skip
    inverse = {"acos", "asin", "atanh"}  # of numbers from -1 to 1
    of_positive = {
        "log": np.log, "log2": np.log2, "log10": np.log10, "sqrt": np.sqrt,
        "rsqrt": lambda v: 1 / np.sqrt(v),
    }  # fmt: skip
    wide = {name: near * 0.9 if name in inverse else x for name in functions}
    return [
        *[case(name, [wide[name]], f(wide[name])) for name, f in functions.items()],
        *[case(name, [positive], f(positive)) for name, f in of_positive.items()],
        case("acosh", [positive + 1], np.arccosh(positive + 1)),
        case("isfinite", [strange], np.isfinite(strange)),
        case("isinf", [strange], np.isinf(strange)),
        case("isnan", [strange], np.isnan(strange)),
        case("logical_not", [truth], ~truth),
        case("bitwise_not", [numbers := whole(4, 3)], ~numbers),
        case("round", [halves], np.trunc(halves + np.copysign(0.5, halves))),
        case("clip", [x], np.clip(x, -0.5, 1), a_min=-0.5, a_max=1.0),
        case("cast", [x], x.astype("int32"), dtype="int32"),
        case("cast", [x], x, dtype="float32"),
        case("cast_like", [numbers, x], numbers.astype("float32")),
    ]


def _binary() -> list[Case]:
    x, y = rand(4, 1, 5), rand(3, 5, low=0.5, high=2)
    a, b = whole(4, 5, low=-9, high=9), whole(5, low=1, high=5)
    p, q = whole(4, 5, high=2, dtype="bool"), whole(5, high=2, dtype="bool")
    floats = {
        "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
        "maximum": np.maximum, "minimum": np.minimum, "floor_divide": np.floor_divide,
        "floor_mod": np.mod, "less": np.less, "greater": np.greater, "mod": np.fmod,
        "trunc_mod": np.fmod, "trunc_divide": lambda v, w: np.trunc(v / w),
    }  # fmt: skip
    integers = {
        "equal": np.equal, "not_equal": np.not_equal, "less_equal": np.less_equal,
        "greater_equal": np.greater_equal, "bitwise_and": np.bitwise_and,
        "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor, "left_shift": np.left_shift,
        "right_shift": np.right_shift, "floor_divide": np.floor_divide, "mod": np.fmod,
        "trunc_mod": np.fmod, "trunc_divide": lambda v, w: np.trunc(v / w).astype("int32"),
        "divide": lambda v, w: np.trunc(v / w).astype("int32"),
    }  # fmt: skip
    truths = {
        "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
    }  # fmt: skip
    return [
        *[case(name, [x, y], f(x, y)) for name, f in floats.items()],
        *[case(name, [a, b], f(a, b)) for name, f in integers.items()],
        *[case(name, [p, q], f(p, q)) for name, f in truths.items()],
        case("power", [y, x], np.power(y, x)),
        case("multiply", [x, _number(2)], 2 * x),
        case("where", [p, a, b], np.where(p, a, b)),
        case("where", [b, rand5 := rand(5), rand1 := rand(4, 1)], np.where(b, rand5, rand1)),
    ]


def _reductions() -> list[Case]:
    x, truth = rand(3, 4, 5), whole(3, 4, 5, high=8, dtype="int8") > 0
    ties = whole(3, 4, 5, high=3).astype("float32")
    flat = ties.transpose(1, 0, 2).reshape(4, 15)
    mean = x.mean((0, 2), keepdims=True)
    cases = []
    for name, reduce in {
        "sum": np.sum, "max": np.max, "min": np.min, "mean": np.mean, "prod": np.prod,
    }.items():  # fmt: skip
        cases += [
            case(name, [x], reduce(x, axis=(0, 2)), axis=(0, -1)),
            case(name, [x], reduce(x, axis=(0, 2), keepdims=True), axis=1, keepdims=1, exclude=1),
        ]
    return [
        *cases,
        case("sum", [x], np.sum(x)),
        case("sum", [x], x, axis=(0, 1, 2), exclude=True),
        case("all", [truth], truth.all(1), axis=(1,)),
        case("any", [~truth], (~truth).any((0, 2), keepdims=True), axis=(0, 2), keepdims=True),
        case("argmax", [ties], ties.argmax(1).astype("int32"), axis=(1,)),
        case("argmax", [ties], flat.argmax(1).astype("int32"), axis=(1,), exclude=True),
        case(
            "argmax", [ties], 3 - ties[:, ::-1].argmax(1, keepdims=True).astype("int32"),
            axis=1, keepdims=True, select_last_index=True,
        ),
        case("argmin", [ties], np.int32(ties.argmin())),
        case("argmin", [ties], ties.argmin(2).astype("int32"), axis=(-1,)),
        case("variance", [x, mean], x.var((0, 2)), axis=(0, 2)),
        case(
            "variance", [x, mean], x.var((0, 2), keepdims=True, ddof=1),
            axis=1, exclude=True, keepdims=True, unbiased=True,
        ),
    ]  # fmt: skip


def _made() -> list[Case]:
    x, square = rand(3, 4), rand(2, 4, 5)
    a, b = rand(2, 3, 4), rand(4, 5)
    before = np.concatenate([np.zeros((3, 1), "float32"), x.cumsum(1)[:, :-1]], 1)
    products = x.cumprod(0)
    limits = [_number(n, "int32") for n in (3, 12, 4)]
    return [
        case("full", [_number(2.5)], np.full((2, 3), 2.5, "float32"), shape=(2, 3)),
        case("full", [_number(2)], np.full((4,), 2, "int32"), shape=(4,), dtype="int32"),
        case("full_like", [x, _number(1.5)], np.full_like(x, 1.5)),
        case("zeros", [], np.zeros((2, 3), "float32"), shape=(2, 3), dtype="float32"),
        case("ones", [], np.ones((2, 3), "int32"), shape=(2, 3), dtype="int32"),
        case("zeros_like", [x], np.zeros_like(x)),
        case("ones_like", [x], np.ones_like(x)),
        case("arange", limits, np.arange(3, 12, 4, "int32"), dtype="int32"),
        case(
            "arange", [_number(n) for n in (1, -1, -0.3)],
            np.arange(1, -1, -0.3, "float32"), dtype="float32",
            start=np.array(1.0), stop=np.array(-1.0), step=np.array(-0.3),
        ),
        case("shape_of", [x], np.array([3, 4], "int32"), dtype="int32"),
        case("ndarray_size", [x], np.array(12, "int64"), dtype="int64"),
        case("cumsum", [x], x.cumsum(1), axis=1),
        case("cumsum", [x], before, axis=-1, exclusive=True),
        case("cumprod", [x], products, axis=0, dtype="float32"),
        case("trilu", [square, _number(1, "int32")], np.triu(square, 1)),
        case("trilu", [square, _number(-1, "int32")], np.tril(square, -1), upper=False),
        case("einsum", [[a, b]], np.einsum("bij,jk->bik", a, b), equation="bij,jk->bik"),
    ]  # fmt: skip


CASES = [*_unary(), *_binary(), *_reductions(), *_made()]
