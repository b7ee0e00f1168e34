# SPDX-License-Identifier: Apache-2.0
"""Convolutions whose windows are moved, element by element, by computed offsets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax

from ...emitter import constant, dtype_of, shape_of
from ..node_emitter import NodeEmitter
from .sampling import Border, weighted
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
    columns = _columns(emit, data, offset, moved, offset_group)
    if mask is not None:
        factors = _by_place(emit, mask, offset_group, 1)
        columns = emit(relax.op.multiply(columns, factors))
    result = _products(emit, columns, weight, group)
    result = emit.reshape(result, [*shape_of(result)[:2], *counts])
    return result if bias is None else emit(relax.op.add(result, emit.along(bias, 1, 4)))


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
    emit: NodeEmitter, data: relax.Expr, offset: relax.Expr, window: Window, groups: int
) -> relax.Expr:
    """Return what each place reads: ``[batch, groups, places, elements, channels of a group]``."""
    batch, channels, *sizes = shape_of(data)
    counts, elements = window.counts(sizes), math.prod(window.kernel)
    images = emit.reshape(data, [batch * groups, channels // groups, *sizes])
    dtype = "float64" if dtype_of(offset) == "float64" else "float32"
    moved = emit.cast(_by_place(emit, offset, groups, 2), dtype)
    moved = emit.reshape(moved, [batch * groups, math.prod(counts), elements, 2])
    axes = []
    for axis, base in enumerate(_bases(window, sizes)):
        own = emit.reshape(emit.slice(moved, 3, axis, axis + 1), shape_of(moved)[:3])
        origin = emit(relax.op.add(own, constant(base[None].astype(dtype))))
        # Farther away, all neighbours are outside; a place at infinity has no fractional part.
        origin = emit(relax.op.clip(origin, -2.0, sizes[axis] + 1.0))
        axes.append(Border("zeros", sizes[axis], aligned=True).neighbours(emit, origin, 1))
    found = weighted(emit, images, axes)
    return emit.reshape(found, [batch, groups, *shape_of(found)[1:]])


def _by_place(emit: NodeEmitter, x: relax.Expr, groups: int, width: int) -> relax.Expr:
    """Return numbers ``[batch, groups * elements * width, ...]`` in the order of the columns."""
    batch, rows, *counts = shape_of(x)
    apart = emit.reshape(x, [batch, groups, rows // (groups * width), width, math.prod(counts)])
    return emit.transpose(apart, [0, 1, 4, 2, 3])


def _bases(window: Window, sizes: Sequence[int]) -> list[np.ndarray]:
    """Return where the elements of a window are without offsets, ``[places, elements]``."""
    along = [
        np.arange(count)[:, None] * stride - before + np.arange(extent) * dilation
        for count, stride, before, extent, dilation in zip(
            window.counts(sizes), window.strides, window.before, window.kernel, window.dilations,
            strict=True,
        )
    ]  # fmt: skip
    rows, columns = along
    shape = (len(rows), len(columns), rows.shape[1], columns.shape[1])
    both = (rows[:, None, :, None], columns[None, :, None, :])
    count = shape[0] * shape[1]
    return [np.broadcast_to(each, shape).reshape(count, -1) for each in both]


def _products(emit: NodeEmitter, columns: relax.Expr, weight: relax.Expr, group: int) -> relax.Expr:
    """Return ``[batch, outputs, places]``, of columns as :func:`_columns` returns them."""
    batch, _, places, elements, _ = shape_of(columns)
    outputs, channels = shape_of(weight)[:2]
    columns = emit.transpose(columns, [0, 2, 3, 1, 4])
    columns = emit.reshape(columns, [batch, places, elements, group, channels])
    columns = emit.transpose(columns, [0, 3, 1, 2, 4])
    columns = emit.reshape(columns, [batch, group, places, elements * channels])
    factors = emit.reshape(weight, [group, outputs // group, channels, elements])
    factors = emit.transpose(factors, [0, 3, 2, 1])
    factors = emit.reshape(factors, [group, elements * channels, outputs // group])
    result = emit.transpose(emit(relax.op.matmul(columns, factors)), [0, 1, 3, 2])
    return emit.reshape(result, [batch, outputs, places])
