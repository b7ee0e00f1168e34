# SPDX-License-Identifier: Apache-2.0
"""Activations, and operators that are the identity at inference."""

from __future__ import annotations

from tvm import relax

from ...frontend.emitter import Emitter, dtype_of, shape_of
from .table import operator


@operator("nn.relu")
def relu(emit: Emitter, data: relax.Expr) -> relax.Expr:
    return emit(relax.op.nn.relu(data))


@operator("nn.leaky_relu")
def leaky_relu(emit: Emitter, data: relax.Expr, *, alpha: float = 0.25) -> relax.Expr:
    return emit(relax.op.nn.leakyrelu(data, alpha))


@operator("nn.prelu")
def prelu(emit: Emitter, data: relax.Expr, alpha: relax.Expr, *, axis: int = 1) -> relax.Expr:
    return emit(relax.op.nn.prelu(data, alpha, emit.axis(axis, len(shape_of(data)))))


@operator("nn.softmax", "nn.fast_softmax")
def softmax(emit: Emitter, data: relax.Expr, *, axis: int = -1) -> relax.Expr:
    return emit(relax.op.nn.softmax(data, axis))


@operator("nn.log_softmax")
def log_softmax(emit: Emitter, data: relax.Expr, *, axis: int = -1) -> relax.Expr:
    return emit(relax.op.nn.log_softmax(data, axis))


@operator("nn.dropout")
def dropout(emit: Emitter, data: relax.Expr, *, rate: float = 0.5) -> tuple[relax.Expr, relax.Expr]:
    """Return the data and a mask of ones: at inference nothing is dropped."""
    return data, emit.full(shape_of(data), 1, dtype_of(data))


@operator("copy", "annotation.stop_fusion", "annotation.checkpoint")
def identity(emit: Emitter, data: relax.Expr) -> relax.Expr:
    return data


@operator("annotation.compiler_begin", "annotation.compiler_end")
def boundary(emit: Emitter, data: relax.Expr, *, compiler: str = "") -> relax.Expr:
    """Return the data; the operator marks a part for another compiler."""
    return data
