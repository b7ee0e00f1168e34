# SPDX-License-Identifier: Apache-2.0
"""Networks that add convolutions up, and others that seem to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tvm
from tvm import relax

from support.networks import (
    constant,
    relax_module,
)

op = relax.op

Emit = Callable[[relax.Expr], relax.Var]
WIDTH = 20


def conv(emit: Emit, data: relax.Expr, seed: int, *, width: int = WIDTH, **attrs) -> relax.Var:
    kernel, bias = attrs.pop("kernel", (3, 3)), attrs.pop("bias", True)
    channels = int(data.ty.shape.values[1]) // attrs.get("groups", 1)
    weights = constant(width, channels, *kernel, seed=seed, scale=0.2)
    value = emit(op.nn.conv2d(data, weights, **attrs))
    return emit(op.add(value, constant(1, width, 1, 1, seed=seed + 100))) if bias else value


Body = Callable[..., relax.Expr]


THREE, SINGLE = {"padding": 1}, {"kernel": (1, 1)}


def network(body: Body, image: Sequence[int] = (2, WIDTH, 9, 11)) -> tvm.IRModule:
    """``body(emit, x, y)`` on two feature maps of one size, between two poolings."""

    def whole(emit, image):
        x = emit(op.nn.max_pool2d(image, (3, 3), padding=1))
        y = emit(op.nn.avg_pool2d(image, (3, 3), padding=1))
        return emit(op.nn.avg_pool2d(body(emit, x, y), (2, 2)))

    return relax_module(whole, image)


def two(one: dict, other: dict, *, same: bool = True) -> Body:
    """``relu(conv(x) + conv(x))``, or ``conv(y)``."""

    def body(emit, x, y):
        left = conv(emit, x, 1, **one)
        right = conv(emit, x if same else y, 2, **other)
        return emit(op.nn.relu(emit(op.add(left, right))))

    return body


def residual(attrs: dict, *, act: bool = True) -> Body:
    """``conv(x) + x``."""

    def body(emit, x, y):
        value = emit(op.add(conv(emit, x, 1, **attrs), x))
        return emit(op.nn.relu(value)) if act else value

    return body


def repvgg(emit: Emit, x: relax.Expr, y: relax.Expr) -> relax.Expr:
    """Ding et al., arXiv 2101.03697: 3x3, 1x1 and the identity."""
    sums = emit(op.add(conv(emit, x, 1, **THREE), conv(emit, x, 2, **SINGLE)))
    return emit(op.nn.relu(emit(op.add(sums, x))))


def tree(emit: Emit, x: relax.Expr, y: relax.Expr) -> relax.Expr:
    """Two sums in a sum; a feature map that is no convolution is one of the addends."""
    left = emit(op.add(conv(emit, x, 1, **THREE), conv(emit, y, 2, **SINGLE)))
    right = emit(op.add(conv(emit, x, 3, **SINGLE), y))
    value = emit(op.subtract(emit(op.add(left, right)), relax.const(0.25, "float32")))
    return emit(op.multiply(value, emit(op.sigmoid(value))))


def shortcut(emit: Emit, x: relax.Expr, y: relax.Expr) -> relax.Expr:
    """A ResNet's: the inputs are of two sizes."""
    small = conv(emit, y, 1, kernel=(3, 3), padding=1, strides=2)
    value = emit(op.add(conv(emit, small, 2, **SINGLE), conv(emit, x, 3, strides=2, **SINGLE)))
    return emit(op.nn.relu(value))


REPLACED = {
    "one input": (two(THREE, THREE), 2),
    "one input, 3x3 and 1x1": (two(THREE, SINGLE), 2),
    "one input, 1x7 and 7x1": (
        two({"kernel": (1, 7), "padding": (0, 3)}, {"kernel": (7, 1), "padding": (3, 0)}),
        2,
    ),
    "one input, taps that fall between": (
        two({"kernel": (2, 2), "dilation": 2, "padding": 1}, {"kernel": (1, 1)}),
        2,
    ),
    "two inputs": (two(THREE, SINGLE, same=False), 2),
    "to a few channels": (two({**THREE, "width": 3}, {**SINGLE, "width": 3}, same=False), 2),
    "the input": (residual(THREE), 1),
    "the input, pointwise": (residual(SINGLE, act=False), 1),
    "the input, an even kernel": (residual({"kernel": (2, 4), "padding": (1, 2, 0, 1)}), 1),
    "a block of RepVGG": (repvgg, 2),
    "a sum of sums": (tree, 3),
    "a shortcut with a stride": (shortcut, 2),
}


def replaced(schedule) -> list[int]:
    return [len(s.operators) for s in schedule.stages if s.strategy == "merge"]


def activated(emit: Emit, x: relax.Expr, y: relax.Expr) -> relax.Expr:
    return emit(op.add(emit(op.nn.relu(conv(emit, x, 1, **THREE))), conv(emit, y, 2, **THREE)))


def activated_later(emit: Emit, x: relax.Expr, y: relax.Expr) -> relax.Expr:
    return emit(op.add(conv(emit, x, 1, **THREE), emit(op.nn.relu(conv(emit, y, 2, **THREE)))))


def read_twice(emit: Emit, x: relax.Expr, y: relax.Expr) -> relax.Expr:
    left = conv(emit, x, 1, **THREE)
    value = emit(op.add(left, conv(emit, y, 2, **THREE)))
    return emit(op.concat([value, emit(op.nn.max_pool2d(left, (1, 1)))], axis=1))


def doubled(emit: Emit, x: relax.Expr, y: relax.Expr) -> relax.Expr:
    left = conv(emit, x, 1, **THREE)
    return emit(op.add(emit(op.add(left, conv(emit, y, 2, **THREE))), left))


def multiplied(emit: Emit, x: relax.Expr, y: relax.Expr) -> relax.Expr:
    return emit(op.multiply(conv(emit, x, 1, **THREE), conv(emit, y, 2, **THREE)))


def also_inside(emit: Emit, x: relax.Expr, y: relax.Expr) -> relax.Expr:
    """``v + conv(y)`` times ``v``."""
    left = conv(emit, x, 1, **THREE)
    return emit(op.multiply(emit(op.add(left, conv(emit, y, 2, **THREE))), left))


def its_own_input(emit: Emit, x: relax.Expr, y: relax.Expr) -> relax.Expr:
    """``v + conv(v)``: the identity, and not the sum of two convolutions."""
    value = conv(emit, x, 1, **THREE)
    return emit(op.add(value, conv(emit, value, 2, **THREE, bias=False)))


NOT_REPLACED = {
    "an activation before": activated,
    "an activation of the later one": activated_later,
    "another reader": read_twice,
    "added twice": doubled,
    "a product": multiplied,
    "read by the program, too": also_inside,
    "groups": two({**THREE, "groups": 2}, {**THREE, "groups": 2}),
    "a tap that falls between": residual({"kernel": (2, 2), "dilation": 2, "padding": 1}),
}
