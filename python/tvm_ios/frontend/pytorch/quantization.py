# SPDX-License-Identifier: Apache-2.0
"""Conversion of PyTorch's operators of quantised programs, as its quantisers for export write them.

They are in the namespace ``quantized_decomposed``, which has scales as numbers or tensors, and
limits that may be narrower than those of the integers.
"""

from __future__ import annotations

import importlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import relax

if TYPE_CHECKING:
    import torch

_REGISTRY = "torch.ao.quantization.fx._decomposed"


def register_operators() -> None:
    """Let PyTorch know the operators, which it does not by itself; old and new releases may not."""
    with suppress(ImportError):
        importlib.import_module(_REGISTRY)


def quantize(node: torch.fx.Node, importer: Any) -> relax.Var:
    """Convert ``quantize_per_tensor(x, scale, zero, low, high, dtype)``."""
    data, scale, zero, low, high, dtype = importer.retrieve_args(node)[:6]
    name, emit = _name(dtype), importer.block_builder.emit
    grid = relax.const(scale, "float32"), relax.const(zero, name)
    whole = emit(relax.op.quantize(data, *grid, axis=0, out_dtype=name))
    limits = np.iinfo(name)
    if (low, high) == (limits.min, limits.max):
        return whole
    return emit(relax.op.clip(whole, low, high))


def dequantize(node: torch.fx.Node, importer: Any) -> relax.Var:
    """Convert ``dequantize_per_tensor(x, scale, zero, ...)``."""
    data, scale, zero = importer.retrieve_args(node)[:3]
    grid = relax.const(scale, "float32"), relax.const(zero, data.ty.dtype.dtype)
    return importer.block_builder.emit(relax.op.dequantize(data, *grid, axis=0))


def dequantize_channels(node: torch.fx.Node, importer: Any) -> relax.Var:
    """Convert ``dequantize_per_channel(x, scales, zeros, axis, ...)``."""
    data, scales, zeros, axis = importer.retrieve_args(node)[:4]
    emit = importer.block_builder.emit
    shape = [1] * len(importer.shape_of(data))
    shape[axis] = -1
    numbers = emit(relax.op.astype(data, "float32"))
    if zeros is not None:
        offsets = emit(relax.op.astype(emit(relax.op.reshape(zeros, shape)), "float32"))
        numbers = emit(relax.op.subtract(numbers, offsets))
    factors = emit(relax.op.astype(emit(relax.op.reshape(scales, shape)), "float32"))
    return emit(relax.op.multiply(numbers, factors))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
