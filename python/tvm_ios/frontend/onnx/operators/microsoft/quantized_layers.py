# SPDX-License-Identifier: Apache-2.0
"""Layers of ONNX Runtime whose weights are 8-bit integers."""

from __future__ import annotations

from typing import Any

from tvm import relax

from ....emitter import dtype_of, shape_of
from ...node_emitter import NodeEmitter
from ..quantization import check_scale
from ..recurrent import lstm
from ..table import Value
from .domain import contributed

_GATES = frozenset((
    "activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size",
    "input_forget",
))  # fmt: skip


@contributed("DynamicQuantizeLSTM", shared=_GATES)
def dynamic_quantize_lstm(
    emit: NodeEmitter,
    data: relax.Expr,
    weights: relax.Expr,
    recurrent: relax.Expr,
    biases: relax.Expr | None,
    sequence_lens: relax.Expr | None,
    initial_h: relax.Expr | None,
    initial_c: relax.Expr | None,
    peepholes: relax.Expr | None,
    w_scale: relax.Expr,
    w_zero_point: relax.Expr,
    r_scale: relax.Expr,
    r_zero_point: relax.Expr,
    **attributes: Any,
) -> Value:
    """Convert a layer whose weights are quantised; what it multiplies by them is not rounded."""
    grids = (weights, w_scale, w_zero_point), (recurrent, r_scale, r_zero_point)
    factors = [emit.transpose(_of_directions(emit, *grid), [0, 2, 1]) for grid in grids]
    optional = biases, sequence_lens, initial_h, initial_c, peepholes
    return lstm(emit, data, *factors, *optional, **attributes)


def _of_directions(
    emit: NodeEmitter, data: relax.Expr, scale: relax.Expr, zero_point: relax.Expr
) -> relax.Expr:
    """Dequantise ``[directions, inputs, gates]``, by direction or by direction and gate."""
    check_scale(emit, scale)
    shape = shape_of(data)
    for part, what in ((scale, "scales"), (zero_point, "zero points")):
        if len(shape) != 3 or shape_of(part) not in (shape[:1], (shape[0], shape[2])):
            raise emit.error(f"has {what} of {list(shape_of(part))} for {list(shape)} weights.")
    if dtype_of(zero_point) != dtype_of(data):
        raise emit.error(f"has zero points of {dtype_of(zero_point)} for {dtype_of(data)}.")
    scale, zero_point = (
        emit.reshape(part, [shape[0], 1, *(shape_of(part)[1:] or (1,))])
        for part in (scale, zero_point)
    )
    wide, zero = emit.cast(data, "float32"), emit.cast(zero_point, "float32")
    return emit.product(emit.difference(wide, zero), scale)
