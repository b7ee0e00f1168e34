# SPDX-License-Identifier: Apache-2.0
"""Conversion of PyTorch's operators of quantised programs, as its quantisers for export write them.

They are in the namespace ``quantized_decomposed``, which has scales as numbers or tensors, and
limits that may be narrower than those of the integers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import relax

from ...emitter import dtype_of, shape_of
from ..node_emitter import AtenEmitter
from .table import operator

if TYPE_CHECKING:
    import torch


@operator("quantized_decomposed.quantize_per_tensor.default")
def quantize(
    emit: AtenEmitter,
    data: relax.Expr,
    scale: float,
    zero: int,
    low: int,
    high: int,
    _: torch.dtype,
) -> relax.Expr:
    name = emit.dtype
    grid = relax.const(scale, "float32"), relax.const(zero, name)
    whole = emit(relax.op.quantize(data, *grid, axis=0, out_dtype=name))
    limits = np.iinfo(name)
    if (low, high) == (limits.min, limits.max):
        return whole
    return emit(relax.op.clip(whole, low, high))


@operator("quantized_decomposed.dequantize_per_tensor.default")
def dequantize(
    emit: AtenEmitter, data: relax.Expr, scale: float, zero: int, *_: Any, **__: Any
) -> relax.Expr:
    grid = relax.const(scale, "float32"), relax.const(zero, dtype_of(data))
    return emit(relax.op.dequantize(data, *grid, axis=0))


@operator("quantized_decomposed.dequantize_per_channel.default")
def dequantize_channels(
    emit: AtenEmitter,
    data: relax.Expr,
    scales: relax.Expr,
    zeros: relax.Expr | None,
    axis: int,
    *_: Any,
    **__: Any,
) -> relax.Expr:
    ndim = len(shape_of(data))
    numbers = emit.cast(data, "float32")
    if zeros is not None:
        offsets = emit.cast(emit.along(zeros, axis, ndim), "float32")
        numbers = emit(relax.op.subtract(numbers, offsets))
    factors = emit.cast(emit.along(scales, axis, ndim), "float32")
    return emit(relax.op.multiply(numbers, factors))
