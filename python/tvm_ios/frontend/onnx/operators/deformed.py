# SPDX-License-Identifier: Apache-2.0
"""Convolutions whose windows are moved, element by element, by computed offsets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm import relax

from ....ops.deformed import Columns, deformed_columns
from ...emitter import dtype_of, shape_of
from ..node_emitter import NodeEmitter
from .table import operator
from .window import Window, window_of


@operator("DeformConv", shared=frozenset(("dilations", "kernel_shape", "pads", "strides")))
def deform_conv(
    emit: NodeEmitter,
    data: relax.Expr,
    weight: relax.Expr,
    offset: relax.Expr,
    bias: relax.Expr | None = None,
    mask: relax.Expr | None = None,
    *,
    group: int = 1,
    offset_group: int = 1,
    **window: Any,
) -> relax.Expr:
    """Multiply interpolated elements of images, each moved by its offset, by weights."""
    if len(shape_of(data)) != 4 or len(shape_of(weight)) != 4:
        raise emit.error("is not of images, which have 4 axes.")
    moved = window_of(emit, shape_of(data)[2:], shape_of(weight)[2:], **window)
    _check_groups(emit, data, weight, group, offset_group)
    counts, elements = moved.counts(shape_of(data)[2:]), math.prod(moved.kernel)
    batch, rows = shape_of(data)[0], offset_group * elements
    for name, tensor, shape in (
        ("offsets", offset, (batch, 2 * rows, *counts)),
        ("biases", bias, shape_of(weight)[:1]),
        ("a mask", mask, (batch, rows, *counts)),
    ):
        if tensor is not None and shape_of(tensor) != shape:
            raise emit.error(
                f"has {name} of {list(shape_of(tensor))}, which must be {list(shape)}."
            )
    if min(*shape_of(data), *shape_of(weight), *counts) < 1:
        raise emit.error(f"has data of {list(shape_of(data))}, which leave no results.")
    columns = _columns(emit, data, offset, mask, moved, offset_group)
    result = _products(emit, columns, weight, group)
    if bias is not None:
        result = emit(relax.op.add(result, bias))
    result = emit.reshape(result, [batch, *counts, shape_of(weight)[0]])
    return emit.transpose(result, [0, 3, 1, 2])


def _check_groups(
    emit: NodeEmitter, data: relax.Expr, weight: relax.Expr, group: int, offset_group: int
) -> None:
    """Raise ModelError for channels that cannot be divided into the groups."""
    channels, (outputs, each) = shape_of(data)[1], shape_of(weight)[:2]
    if min(group, offset_group) < 1 or channels % offset_group or outputs % group:
        raise emit.error(
            f"has {group} groups and {offset_group} of offsets, which do not divide its "
            f"{outputs} and {channels} channels."
        )
    if channels != group * each:
        raise emit.error(f"has weights of {each} channels for {group} groups of {channels}.")


def _columns(
    emit: NodeEmitter,
    data: relax.Expr,
    offset: relax.Expr,
    mask: relax.Expr | None,
    window: Window,
    groups: int,
) -> relax.Expr:
    """Return what each place reads: ``[batch, places, elements, channels]``."""
    batch, channels, height, width = shape_of(data)
    given = [emit.transpose(data, [0, 2, 3, 1]), offset, *([] if mask is None else [mask])]
    dtype = "float64" if "float64" in map(dtype_of, given) else "float32"
    columns = Columns(
        batch,
        height,
        width,
        channels,
        _pair(window.counts([height, width])),
        _pair(window.kernel),
        _pair(window.strides),
        _pair(window.before),
        _pair(window.dilations),
        groups,
        mask is not None,
        dtype,
    )
    found = deformed_columns(emit.builder, columns, [emit.cast(x, dtype) for x in given])
    return emit.cast(found, dtype_of(data))


def _pair(numbers: Sequence[int]) -> tuple[int, int]:
    return numbers[0], numbers[1]


def _products(emit: NodeEmitter, columns: relax.Expr, weight: relax.Expr, group: int) -> relax.Expr:
    """Return ``[batch, places, outputs]``, of columns as :func:`_columns` returns them."""
    batch, places, elements, channels = shape_of(columns)
    outputs = shape_of(weight)[0]
    factors = emit.reshape(weight, [group, outputs // group, channels // group, elements])
    factors = emit.transpose(factors, [0, 3, 2, 1])
    depth = elements * channels // group
    factors = emit.reshape(factors, [group, depth, outputs // group])
    if group == 1:
        left = emit.reshape(columns, [batch, places, depth])
        return emit(relax.op.matmul(left, emit.reshape(factors, [depth, outputs])))
    apart = emit.reshape(columns, [batch, places, elements, group, channels // group])
    apart = emit.transpose(apart, [0, 3, 1, 2, 4])
    left = emit.reshape(apart, [batch, group, places, depth])
    result = emit.transpose(emit(relax.op.matmul(left, factors)), [0, 2, 1, 3])
    return emit.reshape(result, [batch, places, outputs])
