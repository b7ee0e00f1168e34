# SPDX-License-Identifier: Apache-2.0
"""Operators as TIR functions of tensors in their layouts on the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from tvm import relax, tirx

from ....graph.operators import Operator
from ....lowering.inplace import Slots
from ....lowering.legalize import tir_of
from ....lowering.no_rule import NoRule
from ....lowering.value import Value
from ..kernels.channels_last import channels_last
from ..kernels.slices import within_slices
from .inplace import concatenation_of, copied_parts, slice_of

_WEIGHTED = ("conv2d", "depthwise_conv2d")


def operator_function(
    op: Operator, layouts: Mapping[relax.Var, str], slots: Slots
) -> tuple[tirx.PrimFunc, tuple[Value, ...]]:
    """Return an operator as one TIR function of tensors in their layouts.

    Parameters
    ----------
    op : Operator
        The operator.
    layouts : mapping of relax.Var to str
        Values with the channels last.
    slots : mapping of relax.Var to Slot
        Values that are slices of others.

    Returns
    -------
    (tvm.tirx.PrimFunc, tuple)
        The function, and the variables or constants that it reads.

    Raises
    ------
    NoRule
        If TVM does not lower the operator to a single TIR function, or its shapes are dynamic, or
        there is nothing to compute.
    """
    concatenation = concatenation_of(op, layouts)
    if concatenation is not None and len(concatenation.copied(slots)) < len(concatenation.parts):
        return copied_parts(concatenation, slots)
    legalized = tir_of(op)
    if legalized.opened:
        raise NoRule
    function, values = legalized.function, list(legalized.values)
    tensors = (*values, *op.outputs)
    if not any(value in layouts for value in tensors if isinstance(value, relax.Var)):
        # A slice has the channels last.
        return function, tuple(values)
    weights = _weights(op, values)
    maps = [
        i
        for i, value in enumerate(tensors)
        if (value in layouts if isinstance(value, relax.Var) else value.ndim == 4 and i != weights)
    ]
    function = channels_last(function, maps, () if weights is None else (weights,))
    for i in maps:
        if isinstance(tensors[i], np.ndarray):
            values[i] = np.ascontiguousarray(values[i].transpose(0, 2, 3, 1))
    if weights is not None:
        values[weights] = np.ascontiguousarray(values[weights].transpose(2, 3, 1, 0))
    slices = {i: slice_of(v, slots) for i, v in enumerate(tensors) if isinstance(v, relax.Var)}
    function = within_slices(function, {i: s for i, s in slices.items() if s is not None})
    return function, tuple(values)


def _weights(op: Operator, values: Sequence[Value]) -> int | None:
    """Return the position of a convolution's constant weights among the values, None if unknown."""
    if op.kind not in _WEIGHTED:
        return None
    shape = tuple(int(size) for size in op.call.args[1].ty.shape.values)
    for i, value in enumerate(values):
        if isinstance(value, np.ndarray) and value.shape == shape:
            return i
    return None
