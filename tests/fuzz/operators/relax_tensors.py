# SPDX-License-Identifier: Apache-2.0
"""Relax's operators on tensors of any number of axes."""

from __future__ import annotations

import math

import numpy as np

from ..draw import Draw, Refused
from .table import RELAX

INTEGERS = ("int32", "int64")
MOVED = ("float32", "float32", "float32", "float32", "int64", "int32", "bool", "float16")
_ANY = ""
# What is done to an operand first, so that the operator is far from where it is not defined.
_UNARY = {
    "nn.relu": _ANY, "nn.relu6": _ANY, "nn.silu": _ANY, "nn.gelu": _ANY, "nn.gelu_tanh": _ANY,
    "sigmoid": _ANY, "tanh": _ANY, "erf": _ANY, "negative": _ANY, "abs": _ANY, "atan": _ANY,
    "nn.softplus": _ANY, "asinh": _ANY, "sin": _ANY, "cos": _ANY, "square": "tanh", "exp": "tanh",
    "sinh": "tanh", "cosh": "tanh", "tan": "tanh", "asin": "small", "acos": "small",
    "atanh": "small", "log": "positive", "sqrt": "positive", "rsqrt": "positive",
    "acosh": "above one",
}  # fmt: skip
_EXACT = frozenset({"nn.relu", "nn.relu6", "negative", "abs"})


def _number(d: Draw) -> str:
    return d.operand()


def _prepared(d: Draw, x: str, how: str) -> str:
    if not how:
        return x
    if how in ("tanh", "small"):
        y = d.add("tanh", [x])
        return d.add("multiply", [y, d.constant(np.float32(0.9))]) if how == "small" else y
    least = np.float32(1.1 if how == "above one" else 0.1)
    return d.add("add", [d.add("abs", [x], exact=True), d.constant(least)])


def _unary(name: str, how: str) -> None:
    @RELAX.operator(name, 1.5 if name == "nn.relu" else 0.35)
    def generate(d: Draw) -> None:
        d.add(name, [_prepared(d, _number(d), how)], exact=name in _EXACT)


for _name, _how in _UNARY.items():
    _unary(_name, _how)


def _jumping(name: str) -> None:
    @RELAX.operator(name, 0.25)
    def generate(d: Draw) -> None:
        d.add(name, [d.operand(exact=True)], exact=True)


for _name in ("floor", "ceil", "round", "trunc", "sign", "isnan", "isinf", "isfinite"):
    _jumping(_name)


@RELAX.operator("nn.leakyrelu", 0.6)
def leaky(d: Draw) -> None:
    d.add("nn.leakyrelu", [_number(d)], alpha=float(np.float32(d.random.uniform(0.01, 1.2))))


@RELAX.operator("nn.prelu", 0.3)
def prelu(d: Draw) -> None:
    x = d.operand((2, 3, 4))
    d.add("nn.prelu", [x, d.numbers(d.dims(x)[1])], axis=1)


@RELAX.operator("clip", 0.8)
def clip(d: Draw) -> None:
    low, high = (float(np.float32(v)) for v in sorted(d.random.uniform(-3, 3, 2)))
    d.add("clip", [_number(d)], exact=True, min=low, max=high)


def _binary(name: str, weight: float, exact: bool = False, bounded: bool = False) -> None:
    @RELAX.operator(name, weight)
    def generate(d: Draw) -> None:
        dtypes = ("float32", "float32", "float32", "float16", *INTEGERS)
        x = d.operand(dtype="float32" if bounded else dtypes)
        other = d.partner(x)
        if bounded and other not in d.constants:
            other = d.add("tanh", [other])  # lest numbers grow
        operands = [x, other]
        if d.chance(0.4):
            operands.reverse()
        d.add(name, operands, exact=exact)


_binary("add", 3.0)
_binary("subtract", 1.0)
_binary("multiply", 2.0, bounded=True)
_binary("maximum", 0.7, exact=True)
_binary("minimum", 0.7, exact=True)


@RELAX.operator("divide", 0.7)
def divide(d: Draw) -> None:
    x = _number(d)
    d.add("divide", [x, _prepared(d, d.partner(x), "positive")])


@RELAX.operator("power", 0.4)
def power(d: Draw) -> None:
    exponent = d.pick([2.0, 0.5, -0.5, 3.0, 1.0, 1.5])
    x = _prepared(d, d.add("tanh", [_number(d)]), "positive")
    d.add("power", [x, d.constant(np.float32(exponent))])


def _of_integers(name: str, dtypes: tuple[str, ...]) -> None:
    @RELAX.operator(name, 0.2)
    def generate(d: Draw) -> None:
        x = d.operand(dtype=dtypes)
        d.add(name, [x, d.partner(x)])


for _name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    _of_integers(_name, INTEGERS)
for _name in ("logical_and", "logical_or", "logical_xor"):
    _of_integers(_name, ("bool",))


def _divisor(name: str) -> None:
    @RELAX.operator(name, 0.2)
    def generate(d: Draw) -> None:
        x = d.operand(dtype=INTEGERS)
        d.add(name, [x, d.constant(d.random.integers(1, 5, d.dims(x)[-1:]), d.dtype(x))])


_divisor("floor_divide")
_divisor("floor_mod")


def _comparison(name: str) -> None:
    @RELAX.operator(name, 0.25)
    def generate(d: Draw) -> None:
        x = d.operand(dtype=("float32", *INTEGERS), exact=True)
        other = d.partner(x)
        if other not in d.exact:
            raise Refused
        d.add(name, [x, other])


for _name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"):
    _comparison(_name)


@RELAX.operator("where", 0.6)
def where(d: Draw) -> None:
    x = d.operand()
    found = [n for n, t in d.types.items() if t.dtype == "bool" and t.shape == d.dims(x)]
    condition = d.pick(found) if found else d.constant(d.random.integers(0, 2, d.dims(x)) == 1)
    d.add("where", [condition, x, d.partner(x)], exact=True)


@RELAX.operator("astype", 0.6)
def cast(d: Draw) -> None:
    to = d.pick(["float32", "float32", "float16", "int32", "int64", "bool"])
    exact = not to.startswith("float")
    x = d.operand(dtype=("float32", "float16", "bool", *INTEGERS), exact=exact)
    d.add("astype", [x], exact=to != "float16", dtype=to)


@RELAX.operator("matmul", 3.0)
def product(d: Draw) -> None:
    x = d.operand((1, 2, 2, 3, 4))
    *batch, depth = d.dims(x)
    if d.chance(0.25) and len(batch) > 1:
        weights = d.weights(*batch[:-1], depth, d.integer(1, 20), fan=depth)
    else:
        weights = d.weights(depth, d.integer(1, 33), fan=depth)
    y = d.add("matmul", [x, weights])
    if d.chance(0.4):
        d.add("add", [y, d.numbers(d.dims(weights)[-1])])


@RELAX.motif("linear layer", 0.8)
def linear(d: Draw) -> None:
    x = d.operand((2, 3))
    depth, columns = d.dims(x)[-1], d.integer(1, 20)
    weights = d.add("permute_dims", [d.weights(columns, depth)])
    d.add("matmul", [x, weights])


@RELAX.motif("products of rows", 0.4)
def products_of_rows(d: Draw) -> None:
    x = d.add("tanh", [d.operand(3)])
    d.add("matmul", [x, d.add("permute_dims", [x], axes=[0, 2, 1])])


def _over_an_axis(name: str) -> None:
    @RELAX.operator(name, 0.8)
    def generate(d: Draw) -> None:
        x = d.operand(range(1, 5))
        d.add(name, [x], axis=d.integer(-len(d.dims(x)), len(d.dims(x)) - 1))


_over_an_axis("nn.softmax")
_over_an_axis("nn.log_softmax")


@RELAX.operator("nn.layer_norm", 0.8)
def layer_norm(d: Draw) -> None:
    x = d.operand((2, 3, 4))
    rank = len(d.dims(x))
    axes = list(range(-d.integer(1, rank - 1), 0))
    shape = [d.dims(x)[axis] for axis in axes]
    if math.prod(shape) < 4:
        raise Refused
    d.add("nn.layer_norm", [x, d.numbers(*shape), d.numbers(*shape)], axes=axes)


@RELAX.operator("nn.rms_norm", 0.3)
def rms_norm(d: Draw) -> None:
    x = d.operand((2, 3))
    if d.dims(x)[-1] < 4:
        raise Refused
    d.add("nn.rms_norm", [x, d.numbers(d.dims(x)[-1])], axes=[-1])


def _reduction(name: str, exact: bool, weight: float) -> None:
    @RELAX.operator(name, weight)
    def generate(d: Draw) -> None:
        x = d.operand(range(1, 5))
        if not d.types[x].size:
            raise Refused
        if name == "prod":
            x = d.add("tanh", [x])
        axes = d.some(range(len(d.dims(x))))
        chosen = None if d.chance(0.15) else [a - len(d.dims(x)) if d.chance(0.3) else a
                                              for a in axes]  # fmt: skip
        d.add(name, [x], exact=exact, axis=chosen, keepdims=d.chance(0.5))


for _name, _exact, _weight in (
    ("sum", False, 1.0), ("mean", False, 1.0), ("max", True, 0.8), ("min", True, 0.6),
    ("prod", False, 0.3), ("variance", False, 0.3),
):  # fmt: skip
    _reduction(_name, _exact, _weight)


def _place(name: str) -> None:
    @RELAX.operator(name, 0.3)
    def generate(d: Draw) -> None:
        x = d.operand(range(1, 5), exact=True)
        if not d.types[x].size:
            raise Refused  # nothing has no place
        d.add(name, [x], axis=d.integer(0, len(d.dims(x)) - 1), keepdims=d.chance(0.5))


_place("argmax")
_place("argmin")


@RELAX.operator("cumsum", 0.3)
def cumulative_sum(d: Draw) -> None:
    x = d.operand(range(1, 5), ("float32", *INTEGERS))
    d.add("cumsum", [x], axis=d.integer(0, len(d.dims(x)) - 1), dtype=d.dtype(x))


@RELAX.operator("sort", 0.2)
def sort(d: Draw) -> None:
    x = d.operand(range(1, 4))
    axis = d.integer(0, len(d.dims(x)) - 1)
    d.add("sort", [x], exact=True, axis=axis, descending=d.chance(0.5))


def _movable(d: Draw, least: int = 1) -> str:
    return d.operand(range(least, 5), MOVED)


def _axis(d: Draw, x: str) -> int:
    return d.integer(-len(d.dims(x)), len(d.dims(x)) - 1)


@RELAX.operator("reshape", 1.5)
def reshape(d: Draw) -> None:
    x = _movable(d)
    size = d.types[x].size
    if not size:
        raise Refused
    first = d.pick([f for f in range(1, size + 1) if size % f == 0])
    second = d.pick([f for f in range(1, size // first + 1) if size // first % f == 0])
    d.add("reshape", [x], exact=True,
          shape=d.pick([(size,), (first, size // first),
                        (first, second, size // first // second)]))  # fmt: skip


@RELAX.operator("permute_dims", 1.5)
def permute(d: Draw) -> None:
    x = _movable(d, 2)
    order = [int(i) for i in d.random.permutation(len(d.dims(x)))]
    d.add("permute_dims", [x], exact=True, axes=order)


@RELAX.operator("expand_dims", 0.5)
def expand_dims(d: Draw) -> None:
    x = d.operand(range(4), MOVED)
    d.add("expand_dims", [x], exact=True, axis=d.integer(0, len(d.dims(x))))


@RELAX.operator("squeeze", 0.5)
def squeeze(d: Draw) -> None:
    x = d.operand(range(1, 5), MOVED, where=lambda name: 1 in d.dims(name))
    d.add("squeeze", [x], exact=True, axis=[d.dims(x).index(1)])


@RELAX.operator("flatten", 0.4)
def flatten(d: Draw) -> None:
    d.add("flatten", [_movable(d)], exact=True)


@RELAX.operator("broadcast_to", 0.6)
def broadcast(d: Draw) -> None:
    x = d.operand(range(4), MOVED)
    shape = [d.integer(1, 4) if n == 1 else n for n in d.dims(x)]
    shape = [d.integer(1, 3), *shape] if d.chance(0.4) else shape
    if not shape:
        raise Refused
    d.add("broadcast_to", [x], exact=True, shape=tuple(shape))


@RELAX.operator("concat", 2.5)
def concat(d: Draw) -> None:
    x = _movable(d)
    axis = _axis(d, x)
    place, shape = axis % len(d.dims(x)), d.dims(x)

    def fits(other: tuple[int, ...]) -> bool:
        rest = other[:place] + other[place + 1 :]
        return len(other) == len(shape) and rest == shape[:place] + shape[place + 1 :]

    found = [n for n, t in d.types.items() if t.dtype == d.dtype(x) and fits(t.shape)]
    d.add("concat", [x, *(d.pick(found) for _ in range(d.integer(1, 3)))], exact=True, axis=axis)


@RELAX.operator("stack", 0.4)
def stack(d: Draw) -> None:
    x = d.operand(range(1, 4), MOVED)
    same = [n for n, t in d.types.items() if t == d.types[x]]
    axis = d.integer(0, len(d.dims(x)))
    d.add("stack", [x, *(d.pick(same) for _ in range(d.integer(0, 2)))], exact=True, axis=axis)


@RELAX.operator("split", 1.0)
def split(d: Draw) -> None:
    x = _movable(d)
    axis = _axis(d, x)
    length = d.dims(x)[axis]
    if length < 2:
        raise Refused
    count = d.integer(1, min(3, length - 1))
    cuts = sorted(int(c) for c in d.random.permutation(length - 1)[:count] + 1)
    d.add("split", [x], len(cuts) + 1, exact=True, indices_or_sections=cuts, axis=axis)


@RELAX.operator("strided_slice", 1.5)
def cut(d: Draw) -> None:
    x = _movable(d)
    if not d.types[x].size:
        raise Refused
    axes = d.some(range(len(d.dims(x))))
    begins, ends, steps = [], [], []
    for axis in axes:
        length = d.dims(x)[axis]
        low = d.integer(0, length - 1)
        high = d.integer(low + 1, length)
        step = d.pick([1, 1, 2, 3, -1, -2])
        begins.append(low if step > 0 else high - 1)
        ends.append(high if step > 0 else low - 1 - length * (low == 0))
        steps.append(step)
    d.add("strided_slice", [x], exact=True, axes=axes, begin=begins, end=ends, strides=steps)


@RELAX.operator("nn.pad", 0.6)
def pad(d: Draw) -> None:
    x = d.operand(range(1, 5))
    widths = [d.integer(0, 2) for _ in range(2 * len(d.dims(x)))]
    mode = d.pick(["constant", "constant", "edge"])
    d.add("nn.pad", [x], exact=True, pad_width=widths, pad_mode=mode)


def _repeating(name: str) -> None:
    @RELAX.operator(name, 0.4)
    def generate(d: Draw) -> None:
        x = _movable(d)
        if name == "tile":
            d.add("tile", [x], exact=True, repeats=[d.integer(1, 2) for _ in d.dims(x)])
        elif name == "repeat":
            d.add("repeat", [x], exact=True, repeats=d.integer(1, 3), axis=_axis(d, x))
        else:
            d.add("flip", [x], exact=True, axis=_axis(d, x))


for _name in ("tile", "repeat", "flip"):
    _repeating(_name)


@RELAX.operator("take", 0.7)
def take(d: Draw) -> None:
    x = _movable(d)
    axis = d.integer(0, len(d.dims(x)) - 1)
    if not d.dims(x)[axis]:
        raise Refused
    shape = [d.integer(1, 4) for _ in range(d.integer(1, 2))]
    places = d.constant(d.random.integers(0, d.dims(x)[axis], shape), d.pick(INTEGERS))
    d.add("take", [x, places], exact=True, axis=axis)


@RELAX.operator("gather_elements", 0.3)
def gather_elements(d: Draw) -> None:
    x = d.operand(range(1, 4))
    if not d.types[x].size:
        raise Refused
    axis = d.integer(0, len(d.dims(x)) - 1)
    places = d.constant(d.random.integers(0, d.dims(x)[axis], d.dims(x)), "int64")
    d.add("gather_elements", [x, places], exact=True, axis=axis)


def _triangle(name: str) -> None:
    @RELAX.operator(name, 0.2)
    def generate(d: Draw) -> None:
        d.add(name, [d.operand((2, 3))], exact=True, k=d.integer(-2, 2))


_triangle("tril")
_triangle("triu")


@RELAX.operator("topk", 0.2)
def top(d: Draw) -> None:
    x = d.operand(range(1, 4))
    axis = d.integer(0, len(d.dims(x)) - 1)
    if not d.dims(x)[axis]:
        raise Refused
    count = d.integer(1, d.dims(x)[axis])
    d.add("topk", [x], exact=True, k=count, axis=axis, ret_type="values", largest=d.chance(0.5))
