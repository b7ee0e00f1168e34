# SPDX-License-Identifier: Apache-2.0
"""Softmax, layer normalisation and reductions of row-major tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import get_args

import numpy as np

from ....graph.operators import Operator
from ....graph.recognise import is_float32
from ...shared.no_rule import NoRule, shape_of
from ..kernels.layer_norm import LayerNorm, layer_norm_kernel
from ..kernels.layout import PLAIN
from ..kernels.reduce import Reduce, Reduction, reduce_kernel
from ..kernels.softmax import Softmax, softmax_kernel
from .base import Choice, Preferences, program_feeds, row_major
from .feeds import Feed, Feeder


def softmax(op: Operator, feeder: Feeder, preferences: Preferences) -> Choice:
    """Compute a softmax along any axis.

    Parameters
    ----------
    op : Operator
        A softmax with an epilogue.
    feeder : Feeder
        Makes the input bindings.
    preferences : Preferences
        The lowering config.

    Returns
    -------
    Choice
        A kernel with a row-major result.

    Raises
    ------
    NoRule
        If the operand is not of float32, or the epilogue's arguments do not fit the axis.
    """
    data = op.call.args[0]
    if not is_float32(data):
        raise NoRule
    outer, length, inner = _around(shape_of(data), [int(op.call.attrs.axis)])
    if inner > 1 and "last" in op.program.arguments:
        raise NoRule
    kernel = softmax_kernel(Softmax(outer, length, inner, op.program), preferences.core)
    return row_major(kernel, (feeder.plain(data), *program_feeds(op, feeder, PLAIN)), op)


def layer_norm(op: Operator, feeder: Feeder, preferences: Preferences) -> Choice:
    """Compute a layer normalisation over the last axes.

    Parameters
    ----------
    op : Operator
        A layer normalisation with an epilogue.
    feeder : Feeder
        Makes the input bindings.
    preferences : Preferences
        The lowering config.

    Returns
    -------
    Choice
        A kernel with a row-major result.

    Raises
    ------
    NoRule
        If the operand is not of float32, or the axes are not the last ones.
    """
    data, gamma, beta = op.call.args
    attrs = op.call.attrs
    if not is_float32(data):
        raise NoRule
    outer, length, inner = _around(shape_of(data), [int(axis) for axis in attrs.axes])
    several = len(attrs.axes) > 1
    if inner > 1 or (several and "last" in op.program.arguments):
        raise NoRule
    norm = LayerNorm(outer, length, float(attrs.epsilon), op.program)
    feeds = (
        feeder.plain(data),
        feeder.plain(gamma) if attrs.scale else Feed(np.ones(length, "float32")),
        feeder.plain(beta) if attrs.center else Feed(np.zeros(length, "float32")),
        *program_feeds(op, feeder, PLAIN),
    )
    return row_major(layer_norm_kernel(norm, preferences.core), feeds, op)


def reduction(op: Operator, feeder: Feeder, preferences: Preferences) -> Choice:
    """Compute a sum, a mean, a maximum or a minimum along neighbouring axes.

    Parameters
    ----------
    op : Operator
        A reduction with an epilogue.
    feeder : Feeder
        Makes the input bindings.
    preferences : Preferences
        The lowering config.

    Returns
    -------
    Choice
        A kernel with a row-major result.

    Raises
    ------
    NoRule
        If the operand is not of float32, the axes are not neighbours, or the result is a scalar.
    """
    data, axes = op.call.args[0], op.call.attrs.axis
    if not is_float32(data) or not shape_of(op.outputs[0]) or set(op.program.arguments) - {"full"}:
        raise NoRule
    shape = shape_of(data)
    named = range(len(shape)) if axes is None else [int(axis) for axis in axes]
    kinds: tuple[Reduction, ...] = get_args(Reduction)
    reduce = Reduce(kinds[kinds.index(op.kind)], *_around(shape, named), op.program)
    feeds = (feeder.plain(data), *program_feeds(op, feeder, PLAIN))
    return row_major(reduce_kernel(reduce, preferences.core), feeds, op)


def _around(shape: tuple[int, ...], axes: Sequence[int]) -> tuple[int, int, int]:
    """Return the number of elements before, along and after ``axes``, which must be neighbours."""
    numbers = sorted(axis % len(shape) for axis in axes)
    first, last = numbers[0], numbers[-1]
    if numbers != list(range(first, last + 1)):
        raise NoRule
    along = math.prod(shape[first : last + 1])
    return math.prod(shape[:first]), along, math.prod(shape[last + 1 :])
