# SPDX-License-Identifier: Apache-2.0
"""An operator as one TIR function of tensors as they lie in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from tvm import relax, tirx

from ....graph.operators import Operator
from ...shared.legalize import tir_of
from ..kernels.channels_last import channels_last

_WEIGHTED = ("conv2d", "depthwise_conv2d")


def operator_function(
    op: Operator, layouts: Mapping[relax.Var, str]
) -> tuple[tirx.PrimFunc, tuple[relax.Var | np.ndarray, ...]]:
    """The operator as one function of tensors as they lie in memory, and what it reads.

    Raises
    ------
    NoRule
        When TVM makes no single TIR function of it, or one of unknown sizes.
    """
    function, read = tir_of(op)
    values = list(read)
    tensors = (*values, *op.outputs)
    if not any(value in layouts for value in tensors if isinstance(value, relax.Var)):
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
    return function, tuple(values)


def _weights(op: Operator, values: Sequence[relax.Var | np.ndarray]) -> int | None:
    """Which of the values are a convolution's weights, if these are known."""
    if op.kind not in _WEIGHTED:
        return None
    shape = tuple(int(size) for size in op.call.args[1].ty.shape.values)
    for i, value in enumerate(values):
        if isinstance(value, np.ndarray) and value.shape == shape:
            return i
    return None
