# SPDX-License-Identifier: Apache-2.0
"""Matrix products."""

from __future__ import annotations

from tvm import relax

from ..node_emitter import AtenEmitter
from .table import operator


@operator("mm.default", "bmm.default", "matmul.default", "mv.default", "dot.default")
def product(emit: AtenEmitter, left: relax.Expr, right: relax.Expr) -> relax.Expr:
    return emit(relax.op.matmul(left, right))


@operator("addmm.default", "baddbmm.default", "addmv.default")
def product_and_sum(
    emit: AtenEmitter,
    added: relax.Expr,
    left: relax.Expr,
    right: relax.Expr,
    *,
    beta: float = 1,
    alpha: float = 1,
) -> relax.Expr:
    """Return ``beta added + alpha left @ right``; where beta is 0, what is added is not read."""
    result = emit(relax.op.matmul(left, right))
    if alpha != 1:
        result = emit(relax.op.multiply(result, emit.scalar(alpha, result)))
    if beta == 0:
        return result
    if beta != 1:
        added = emit(relax.op.multiply(added, emit.scalar(beta, added)))
    return emit(relax.op.add(added, result))


@operator("linear.default")
def linear(
    emit: AtenEmitter, data: relax.Expr, weight: relax.Expr, bias: relax.Expr | None
) -> relax.Expr:
    rank = len(weight.ty.shape)
    result = emit(relax.op.matmul(data, emit.transpose(weight, list(range(rank))[::-1])))
    return result if bias is None else emit(relax.op.add(result, bias))
