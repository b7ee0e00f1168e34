# SPDX-License-Identifier: Apache-2.0
"""Softmax, layer normalisation and reductions of row-major tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import get_args

import numpy as np

from ....graph.operators import Operator
from ....lowering.no_rule import NoRule, shape_of
from ....ops.epilogue import NOTHING
from ....relax_ir.expressions import is_float32
from ....sizes.arithmetic import limited
from ....sizes.size import AnyShape, AnySize, Size, is_open, known_equal
from ..kernels.layout import PLAIN
from ..kernels.rows.layer_norm import LayerNorm, layer_norm_kernel
from ..kernels.rows.pieces import divides, reduce_in_pieces_kernel
from ..kernels.rows.reduce import LONGEST, Reduce, Reduction, reduce_kernel
from ..kernels.rows.softmax import Softmax, softmax_kernel
from .base import Choice, LoweringConfig, epilogue_inputs, row_major
from .bindings import InputBinder, InputBinding


def softmax(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Compute a softmax along any axis.

    Raises
    ------
    NoRule
        If the operand is not of float32, or the epilogue's arguments do not fit the axis.
    """
    data = op.call.args[0]
    if not is_float32(data):
        raise NoRule
    outer, length, inner = _around(shape_of(data), [int(op.call.attrs.axis)])
    if not known_equal(inner, 1) and "last" in op.epilogue.arguments:
        raise NoRule
    kernel = softmax_kernel(Softmax(outer, length, inner, op.epilogue), config.core)
    return row_major(kernel, (binder.plain(data), *epilogue_inputs(op, binder, PLAIN)), op)


def layer_norm(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Compute a layer normalisation over the last axes.

    Raises
    ------
    NoRule
        If the operand is not of float32, the axes are not the last ones, or their length is open
        and there is no scale or no shift.
    """
    data, gamma, beta = op.call.args
    attrs = op.call.attrs
    outer, length = _last_axes(op)
    if isinstance(length, Size) and not (attrs.scale and attrs.center):
        raise NoRule
    norm = LayerNorm(outer, length, float(attrs.epsilon), op.epilogue)
    bindings = (
        binder.plain(data),
        binder.plain(gamma) if attrs.scale else InputBinding(np.ones(length, "float32")),
        binder.plain(beta) if attrs.center else InputBinding(np.zeros(length, "float32")),
        *epilogue_inputs(op, binder, PLAIN),
    )
    return row_major(layer_norm_kernel(norm, config.core), bindings, op)


def rms_norm(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Divide rows, which are the last axes, by the roots of the means of their squares.

    Raises
    ------
    NoRule
        If the operand is not of float32, or the axes are not the last ones.
    """
    data, gamma = op.call.args
    norm = LayerNorm(*_last_axes(op), float(op.call.attrs.epsilon), op.epilogue, centred=False)
    bindings = (binder.plain(data), binder.plain(gamma), *epilogue_inputs(op, binder, PLAIN))
    return row_major(layer_norm_kernel(norm, config.core), bindings, op)


def _last_axes(op: Operator) -> tuple[AnySize, AnySize]:
    """Return the number of rows that a normalisation of the last axes has, and their length."""
    data, axes = op.call.args[0], [int(axis) for axis in op.call.attrs.axes]
    if not is_float32(data):
        raise NoRule
    outer, length, inner = _around(shape_of(data), axes)
    if not known_equal(inner, 1) or (len(axes) > 1 and "last" in op.epilogue.arguments):
        raise NoRule
    return outer, length


def reduction(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Compute a sum, a mean, a variance, a maximum or a minimum along neighbouring axes.

    Raises
    ------
    NoRule
        If the operand is not of float32, or the axes are not neighbours.
    """
    data, axes = op.call.args[0], op.call.attrs.axis
    if not is_float32(data) or set(op.epilogue.arguments) - {"full"}:
        raise NoRule
    shape = shape_of(data)
    named = range(len(shape)) if axes is None else [int(axis) for axis in axes]
    kinds: tuple[Reduction, ...] = get_args(Reduction)
    reduce = Reduce(kinds[kinds.index(op.kind)], *_around(shape, named), op.epilogue)
    bindings = (binder.plain(data), *epilogue_inputs(op, binder, PLAIN))
    known = not is_open(shape)
    build = reduce_in_pieces_kernel if known and divides(reduce, config.core) else reduce_kernel
    return row_major(build(reduce, config.core), bindings, op)


def place(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Find the places of the largest, or smallest, elements along an axis.

    Raises
    ------
    NoRule
        If the operand is not of float32, the axis is very long, or an axis after it is open.
    """
    data, axis = op.call.args[0], op.call.attrs.axis
    shape = shape_of(data)
    if not is_float32(data) or axis is None:
        raise NoRule
    outer, length, inner = _around(shape, [int(axis)])
    if is_open((inner,)) or op.epilogue != NOTHING or not limited(length, LONGEST - 1):
        raise NoRule
    kind: Reduction = "argmax" if op.kind == "argmax" else "argmin"
    kernel = reduce_kernel(Reduce(kind, outer, length, inner), config.core)
    return row_major(kernel, (binder.plain(data),), op)


def _around(shape: AnyShape, axes: Sequence[int]) -> tuple[AnySize, AnySize, AnySize]:
    """Return the number of elements before, along and after ``axes``, which must be neighbours."""
    numbers = sorted(axis % len(shape) for axis in axes)
    first, last = numbers[0], numbers[-1]
    if numbers != list(range(first, last + 1)):
        raise NoRule
    along = math.prod(shape[first : last + 1])
    return math.prod(shape[:first]), along, math.prod(shape[last + 1 :])
