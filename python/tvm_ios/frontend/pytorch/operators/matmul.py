# SPDX-License-Identifier: Apache-2.0
"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from ....relax_ir.expressions import is_op
from ....sizes.size import is_open, known_equal
from ...emitter import shape_of
from ..node_emitter import AtenEmitter
from .table import operator


@operator("mm.default", "bmm.default", "matmul.default", "mv.default", "dot.default")
def product(emit: AtenEmitter, left: relax.Expr, right: relax.Expr) -> relax.Expr:
    return emit(relax.op.matmul(left, _once(emit, right)))


def _once(emit: AtenEmitter, matrices: relax.Expr) -> relax.Expr:
    """Return one matrix in place of copies of it for an open batch.

    PyTorch's decomposition repeats the weights of a layer where a batch is open.
    """
    value = emit.builder.lookup_binding(matrices) if isinstance(matrices, relax.Var) else None
    if not is_op(value, "broadcast_to") or not is_open(shape_of(matrices)[:-2]):
        return matrices
    (*batch, rows, columns) = shape_of(value.args[0])
    is_one = all(known_equal(size, 1) for size in batch)
    if not is_one or not all(map(known_equal, (rows, columns), shape_of(matrices)[-2:])):
        return matrices
    return emit.reshape(value.args[0], [rows, columns])


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
    result = _times(emit, emit(relax.op.matmul(left, right)), alpha)
    return result if beta == 0 else emit(relax.op.add(_times(emit, added, beta), result))


@operator("addbmm.default")
def sum_of_products(
    emit: AtenEmitter,
    added: relax.Expr,
    left: relax.Expr,
    right: relax.Expr,
    *,
    beta: float = 1,
    alpha: float = 1,
) -> relax.Expr:
    """Return ``beta added + alpha sum(left @ right)`` over the matrices, as one product."""
    (count, rows, inner), columns = shape_of(left), shape_of(right)[-1]
    wide = emit.reshape(emit.transpose(left, [1, 0, 2]), [rows, count * inner])
    tall = emit.reshape(right, [count * inner, columns])
    return product_and_sum(emit, added, wide, tall, beta=beta, alpha=alpha)


@operator("_trilinear.default")
def bilinear(
    emit: AtenEmitter,
    left: relax.Expr,
    weight: relax.Expr,
    right: relax.Expr,
    *given: Sequence[int] | int,
) -> relax.Expr:
    """Return ``left @ weight[i] @ right`` of each row, as a bilinear layer computes it."""
    if given[:4] != ([1, 3], [0], [1, 2], [2, 3]):
        raise emit.error("is another product of three tensors than that of a bilinear layer, which "
                         "is not supported.")  # fmt: skip
    (rows, inner), (outputs, _, other) = shape_of(left), shape_of(weight)
    flat = emit.reshape(emit.transpose(weight, [1, 0, 2]), [inner, outputs * other])
    half = emit.reshape(emit(relax.op.matmul(left, flat)), [rows, outputs, other])
    product = emit(relax.op.multiply(half, emit.reshape(right, [rows, 1, other])))
    return emit(relax.op.sum(product, [2]))


@operator("addr.default")
def outer_product_and_sum(
    emit: AtenEmitter,
    added: relax.Expr,
    left: relax.Expr,
    right: relax.Expr,
    *,
    beta: float = 1,
    alpha: float = 1,
) -> relax.Expr:
    """Return ``beta added + alpha left right``; what is multiplied by 0 is not read."""
    if alpha == 0:
        zeros = emit.filled(emit.shape, 0, emit.dtype)
        terms = [] if beta else [zeros]
    else:
        column = emit.reshape(emit.operand(left), [emit.shape[0], 1])
        product = emit(relax.op.multiply(column, emit.operand(right)))
        terms = [_times(emit, product, alpha)]
    if beta != 0:
        terms.append(_times(emit, emit.broadcast(emit.operand(added), emit.shape), beta))
    return terms[0] if len(terms) == 1 else emit(relax.op.add(*terms))


def _times(emit: AtenEmitter, x: relax.Expr, factor: float) -> relax.Expr:
    return x if factor == 1 else emit(relax.op.multiply(x, emit.scalar(factor, x)))


@operator("linear.default")
def linear(
    emit: AtenEmitter, data: relax.Expr, weight: relax.Expr, bias: relax.Expr | None
) -> relax.Expr:
    rank = len(weight.ty.shape)
    result = emit(relax.op.matmul(data, emit.transpose(weight, list(range(rank))[::-1])))
    return result if bias is None else emit(relax.op.add(result, bias))
