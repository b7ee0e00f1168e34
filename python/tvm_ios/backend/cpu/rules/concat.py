# SPDX-License-Identifier: Apache-2.0
"""Concatenation."""

from __future__ import annotations

from contextlib import suppress

from ....graph.operators import Operator
from ....lowering.inplace import parts_of
from ....lowering.no_rule import NoRule, shape_of
from ....relax_ir.expressions import is_float32
from ....sizes.size import is_open
from ..kernels.layout import Layout
from ..kernels.maps.concat import concat_kernel, concat_rows_kernel, whole_blocks
from ..kernels.rows.open_concat import open_concat
from .base import Choice, LoweringConfig, row_major
from .bindings import InputBinder
from .channels import from_channels

_COLUMNS = 3  # the axis of a feature map

_MOVED = frozenset({"float32", "float64", "int32", "int64", "int8", "uint8"})
"""The types of tensors whose vectors can be copied."""


def concat(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Concatenate feature maps along the channels or in a row, or row-major ones of open sizes.

    Raises
    ------
    NoRule
        For any other concatenation.
    """
    result, fields = shape_of(op.anchor), parts_of(op)
    blocked = any(binder.layout(field).block for field in fields)
    axis = op.call.attrs.axis
    if not blocked and is_open(size for e in (op.anchor, *fields) for size in shape_of(e)):
        return _row_major(op, binder, config)
    if len(result) != 4 or axis is None or not blocked or not is_float32(op.anchor):
        raise NoRule
    if int(axis) % 4 == _COLUMNS and result[2] == 1 and not is_open(result):
        return _of_one_row(op, binder, config)
    if int(axis) % 4 != 1:
        raise NoRule
    counts = [shape_of(field)[1] for field in fields]
    if is_open(counts):
        raise NoRule
    if not whole_blocks(counts, Layout(config.core.lanes)):
        channels = [(i, channel) for i, count in enumerate(counts) for channel in range(count)]
        with suppress(NoRule):
            return from_channels(op, fields, channels, binder, config)
    return copying(op, binder, config, tuple(range(len(fields))))


def _of_one_row(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Concatenate maps of one row along the columns."""
    fields, layout = parts_of(op), Layout(config.core.lanes)
    batch, channels = shape_of(op.anchor)[:2]
    columns = tuple(shape_of(field)[_COLUMNS] for field in fields)
    if is_open((batch, channels, *columns)):
        raise NoRule
    kernel = concat_rows_kernel(batch, channels, columns, layout)
    return Choice(kernel, tuple(binder.feature_map(field, layout) for field in fields), layout)


def _row_major(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Concatenate row-major tensors of one type."""
    fields, result = parts_of(op), shape_of(op.anchor)
    dtype, axis = str(op.call.ty.dtype), op.call.attrs.axis
    if not fields or dtype not in _MOVED:
        raise NoRule
    place = 0 if axis is None else int(axis) % len(result)
    kernel = open_concat([shape_of(field) for field in fields], result, place, dtype, config.core)
    bindings = tuple(map(binder.plain, fields))
    return row_major(kernel, bindings, op)


def copying(
    op: Operator, binder: InputBinder, config: LoweringConfig, copied: tuple[int, ...]
) -> Choice:
    """Return the concatenation that copies only the parts ``copied``.

    Parameters
    ----------
    op : Operator
        The concatenation.
    binder : InputBinder
        Makes the input bindings.
    config : LoweringConfig
        The lowering config.
    copied : tuple of int
        Positions of the parts to copy. The other parts are in place already.

    Returns
    -------
    Choice
        A kernel with a blocked result.
    """
    result, layout = shape_of(op.anchor), Layout(config.core.lanes)
    fields = parts_of(op)
    channels = tuple(shape_of(field)[1] for field in fields)
    kernel = concat_kernel(result[0], channels, result[2] * result[3], layout, copied)
    bindings = tuple(binder.feature_map(fields[i], layout) for i in copied)
    return Choice(kernel, bindings, layout)
