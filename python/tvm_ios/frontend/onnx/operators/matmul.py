# SPDX-License-Identifier: Apache-2.0
"""Matrix products."""

from __future__ import annotations

from tvm import relax

from ...emitter import constant_array, shape_of
from ..node_emitter import NodeEmitter
from .integers import check_bytes, exact_product
from .table import operator


@operator("MatMul")
def matmul(emit: NodeEmitter, a: relax.Expr, b: relax.Expr) -> relax.Expr:
    return emit(relax.op.matmul(a, b))


@operator("Gemm")
def gemm(
    emit: NodeEmitter,
    a: relax.Expr,
    b: relax.Expr,
    c: relax.Expr | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> relax.Expr:
    """Return ``alpha * a @ b + beta * c``."""
    a = emit.transpose(a, [1, 0]) if transA else a
    b = emit.transpose(b, [1, 0]) if transB else b
    product = emit(relax.op.matmul(a, b))
    if alpha != 1.0:
        product = emit(relax.op.multiply(product, emit.scalar(alpha, product)))
    if c is None or beta == 0.0:
        return product
    if beta != 1.0:
        c = emit(relax.op.multiply(c, emit.scalar(beta, c)))
    return emit(relax.op.add(product, c))


@operator("Einsum")
def einsum(emit: NodeEmitter, *tensors: relax.Expr, equation: str) -> relax.Expr:
    return emit(relax.op.einsum(list(tensors), equation.replace(" ", "")))


@operator("MatMulInteger")
def matmul_integer(
    emit: NodeEmitter,
    a: relax.Expr,
    b: relax.Expr,
    a_zero_point: relax.Expr | None = None,
    b_zero_point: relax.Expr | None = None,
) -> relax.Expr:
    """Multiply 8-bit integers, less their zero points, with sums of 32 bits."""
    check_bytes(emit, a, b)
    return exact_product(emit, a, b, a_zero_point, b_zero_point)


def shifted(
    emit: NodeEmitter, data: relax.Expr, zero_point: relax.Expr | None, axis: int
) -> relax.Expr:
    """Return 8-bit integers less their zero points, one or one for each place along an axis."""
    wide = emit.cast(data, "int32")
    known = None if zero_point is None else constant_array(zero_point)
    if zero_point is None or (known is not None and not known.any()):
        return wide
    zero = emit.cast(zero_point, "int32")
    if len(shape_of(zero)) == 1:
        size, ndim = shape_of(zero)[0], len(shape_of(data))
        zero = emit.reshape(zero, []) if size == 1 else emit.along(zero, axis, ndim)
    return emit(relax.op.subtract(wide, zero))
