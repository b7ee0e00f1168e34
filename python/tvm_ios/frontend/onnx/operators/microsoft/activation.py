# SPDX-License-Identifier: Apache-2.0
"""Activations of sums, and those that other operators of ONNX Runtime have at their end."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from ....emitter import shape_of
from ...node_emitter import NodeEmitter
from .. import activation, create
from ..elementwise import clip
from ..table import Converter
from .domain import check_shape, contributed, with_bias

_FUSED: dict[str, tuple[Converter, tuple[str, ...]]] = {
    "Relu": (activation.relu, ()),
    "Sigmoid": (activation.sigmoid, ()),
    "Tanh": (activation.tanh, ()),
    "Softplus": (activation.softplus, ()),
    "Softsign": (activation.softsign, ()),
    "HardSwish": (activation.hard_swish, ()),
    "LeakyRelu": (activation.leaky_relu, ("alpha",)),
    "Elu": (activation.elu, ("alpha",)),
    "Celu": (activation.celu, ("alpha",)),
    "Selu": (activation.selu, ("alpha", "gamma")),
    "ThresholdedRelu": (activation.thresholded_relu, ("alpha",)),
    "HardSigmoid": (activation.hard_sigmoid, ("alpha", "beta")),
}
"""Activations by name, with the names of their parameters in order."""


def activated(
    emit: NodeEmitter, data: relax.Expr, name: str | None, parameters: Sequence[float] = ()
) -> relax.Expr:
    """Apply an activation by its name.

    Parameters
    ----------
    emit : NodeEmitter
    data : relax.Expr
    name : str or None
        None or empty for no activation.
    parameters : sequence of float
        In their order.

    Raises
    ------
    ModelError
        If the activation is not known, or takes another number of parameters.
    """
    if not name:
        return data
    if name == "Clip" and len(parameters) == 2:
        low, high = (emit.scalar(number, data) for number in parameters)
        return clip(emit, data, low, high)
    convert, names = _known(emit, name)
    if len(parameters) != len(names):
        raise emit.error(
            f"has {len(parameters)} parameters of its activation {name}, which takes {len(names)}."
        )
    return convert(emit, data, **dict(zip(names, parameters, strict=True)))


def activated_by_name(
    emit: NodeEmitter, data: relax.Expr, name: str | None, **parameters: float
) -> relax.Expr:
    """Apply an activation as :func:`activated` does, with its parameters by name."""
    if not name:
        return data
    convert, names = _known(emit, name)
    if set(parameters) != set(names):
        raise emit.error(
            f"has the parameters {sorted(parameters)} of its activation {name}, which takes "
            f"{sorted(names)}."
        )
    return convert(emit, data, **parameters)


def _known(emit: NodeEmitter, name: str) -> tuple[Converter, tuple[str, ...]]:
    if name not in _FUSED:
        raise emit.error(f"has the activation {name!r}, which is not supported.")
    return _FUSED[name]


@contributed("Gelu")
def gelu(emit: NodeEmitter, data: relax.Expr) -> relax.Expr:
    return activation.gelu(emit, data)


@contributed("BiasGelu")
def bias_gelu(emit: NodeEmitter, data: relax.Expr, bias: relax.Expr) -> relax.Expr:
    return activation.gelu(emit, with_bias(emit, data, bias))


@contributed("FastGelu")
def fast_gelu(emit: NodeEmitter, data: relax.Expr, bias: relax.Expr | None = None) -> relax.Expr:
    return activation.gelu(emit, with_bias(emit, data, bias), approximate="tanh")


@contributed("QuickGelu")
def quick_gelu(emit: NodeEmitter, data: relax.Expr, *, alpha: float = 1.702) -> relax.Expr:
    return activation.swish(emit, data, alpha=alpha)


@contributed("BiasAdd")
def bias_add(emit: NodeEmitter, data: relax.Expr, bias: relax.Expr, skip: relax.Expr) -> relax.Expr:
    check_shape(emit, skip, shape_of(data), "a second summand")
    return emit(relax.op.add(with_bias(emit, data, bias), skip))


@contributed("BiasSplitGelu")
def bias_split_gelu(emit: NodeEmitter, data: relax.Expr, bias: relax.Expr) -> relax.Expr:
    """Multiply the first half of each row by the GELU of the other."""
    total = with_bias(emit, data, bias)
    axis, size = len(shape_of(data)) - 1, shape_of(data)[-1]
    if size % 2:
        raise emit.error(f"halves rows of {size} elements, which is an odd number.")
    left = emit.slice(total, axis, 0, size // 2)
    right = emit.slice(total, axis, size // 2, size)
    return emit(relax.op.multiply(left, activation.gelu(emit, right)))


@contributed("BiasSoftmax")
def bias_softmax(
    emit: NodeEmitter,
    data: relax.Expr,
    bias: relax.Expr,
    *,
    axis: int = 1,
    is_inner_broadcast: int,
) -> relax.Expr:
    """Return a softmax over all axes from ``axis`` on, of a sum.

    A bias that repeats does so along the axes just before these, or along the first ones.
    """
    shape = shape_of(data)
    axis = emit.axis(axis, len(shape))
    given = (1,) * (len(shape) - len(shape_of(bias))) + shape_of(bias)
    outer = [(size, held) for size, held in zip(shape[:axis], given, strict=False) if size != 1]
    repeats = [held == 1 for _, held in outer]
    fits = len(given) == len(shape) and given[axis:] == shape[axis:]
    fits = fits and all(held in (1, size) for size, held in outer)
    if not fits or repeats != sorted(repeats, reverse=not is_inner_broadcast):
        raise emit.error(
            f"adds a bias of {list(shape_of(bias))} to data of {list(shape)}, which does not "
            f"repeat as is_inner_broadcast={is_inner_broadcast} says."
        )
    total = emit(relax.op.add(data, bias))
    return activation.softmax_of_rows(emit, total, axis=axis)


@contributed("BiasDropout")
def bias_dropout(
    emit: NodeEmitter,
    data: relax.Expr,
    bias: relax.Expr,
    residual: relax.Expr | None = None,
    ratio: relax.Expr | None = None,
    training_mode: relax.Expr | None = None,
    *,
    seed: int | None = None,
) -> tuple[relax.Expr, ...]:
    """Add a bias and a residual, and return a mask that drops nothing."""
    if shape_of(bias) != shape_of(data):
        check_shape(emit, bias, shape_of(data)[-1:], "a bias")
    kept = create.dropout(emit, emit(relax.op.add(data, bias)), ratio, training_mode, seed=seed)
    assert isinstance(kept, tuple), "it has a mask, too"
    if residual is None:
        return kept
    check_shape(emit, residual, shape_of(data), "a residual")
    return emit(relax.op.add(kept[0], residual)), *kept[1:]
