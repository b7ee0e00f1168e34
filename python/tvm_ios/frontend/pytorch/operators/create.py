# SPDX-License-Identifier: Apache-2.0
"""Tensors of given elements.

PyTorch itself computes those that do not depend on an input, unless they are large.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax

from ....sizes.size import AnySize, Size
from ..node_emitter import AtenEmitter
from .table import operator


@operator("full.default", "full_like.default", "fill.Scalar", "new_full.default")
def full(emit: AtenEmitter, *arguments: Any) -> relax.Expr:
    if isinstance(arguments[-1], Size):
        return emit.broadcast(emit.operand(arguments[-1]), emit.shape)
    return emit.filled(emit.shape, arguments[-1], emit.dtype)


@operator(
    "zeros.default",
    "zeros_like.default",
    "new_zeros.default",
    "empty.memory_format",
    "empty_like.default",
    "empty_permuted.default",
    "empty_strided.default",
    "new_empty.default",
    "new_empty_strided.default",
)
def zeros(emit: AtenEmitter, *_: Any) -> relax.Expr:
    """Return zeros, also where PyTorch leaves open what there is."""
    return emit.filled(emit.shape, 0, emit.dtype)


@operator("ones.default", "ones_like.default", "new_ones.default")
def ones(emit: AtenEmitter, *_: Any) -> relax.Expr:
    return emit.filled(emit.shape, 1, emit.dtype)


@operator("fill.Tensor")
def fill(emit: AtenEmitter, _: relax.Expr, value: relax.Expr) -> relax.Expr:
    return emit.broadcast(emit.operand(value), emit.shape)


@operator("scalar_tensor.default")
def scalar_tensor(emit: AtenEmitter, value: float) -> relax.Expr:
    return emit.operand(value)


@operator("arange.start_step")
def arange(emit: AtenEmitter, start: float, _: float, step: float) -> relax.Expr:
    count: Sequence[AnySize] = emit.shape
    places = emit.positions(count[0], emit.dtype)
    scaled = emit(relax.op.multiply(places, emit.operand(step)))
    return emit(relax.op.add(scaled, emit.operand(start)))
