# SPDX-License-Identifier: Apache-2.0
"""Matrix products with what precedes and follows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm import relax

from ....emitter import shape_of
from ...node_emitter import NodeEmitter
from .. import matmul
from .activation import activated_by_name, fast_gelu
from .domain import contributed

_PRODUCT = frozenset(("alpha", "transA", "transB", "transBatchA", "transBatchB"))
_PREFIX = "activation_"
_ACTIVATION = frozenset(("activation", *(_PREFIX + name for name in ("alpha", "beta", "gamma"))))


@contributed("FusedMatMul", "TransposeMatMul")
def fused_matmul(
    emit: NodeEmitter,
    a: relax.Expr,
    b: relax.Expr,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> relax.Expr:
    """Return ``alpha * a @ b`` of matrices whose axes are in another order."""
    left = _ordered(emit, a, bool(transA), bool(transBatchA))
    right = _ordered(emit, b, bool(transB), bool(transBatchB))
    product = matmul.matmul(emit, left, right)
    if alpha == 1.0:
        return product
    return emit(relax.op.multiply(product, emit.scalar(alpha, product)))


def _ordered(emit: NodeEmitter, x: relax.Expr, transposed: bool, batched: bool) -> relax.Expr:
    """Move the first axis behind the batches if it is one of the matrices; then swap their axes."""
    order = list(range(len(shape_of(x))))
    if len(order) < 2:
        return x  # a vector has no other order
    if batched:
        order = [*order[1:-1], order[0], order[-1]]
    if transposed:
        order[-2:] = order[:-3:-1]
    return emit.transpose(x, order)


@contributed("FusedMatMulActivation", shared=_PRODUCT | _ACTIVATION)
def fused_matmul_activation(
    emit: NodeEmitter, a: relax.Expr, b: relax.Expr, **attributes: Any
) -> relax.Expr:
    activation, product = _divided(attributes)
    return activated_by_name(emit, fused_matmul(emit, a, b, **product), **activation)


@contributed("FusedGemm", shared=frozenset(("alpha", "beta", "transA", "transB")) | _ACTIVATION)
def fused_gemm(
    emit: NodeEmitter,
    a: relax.Expr,
    b: relax.Expr,
    c: relax.Expr | None = None,
    **attributes: Any,
) -> relax.Expr:
    activation, product = _divided(attributes)
    return activated_by_name(emit, matmul.gemm(emit, a, b, c, **product), **activation)


def _divided(attributes: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the name and the parameters of an activation, and the attributes of a product."""
    activation: dict[str, Any] = {"name": None}
    product = {}
    for name, value in attributes.items():
        if name in _ACTIVATION:
            activation["name" if name == "activation" else name.removeprefix(_PREFIX)] = value
        else:
            product[name] = value
    return activation, product


@contributed("GemmFastGelu")
def gemm_fast_gelu(
    emit: NodeEmitter, data: relax.Expr, weight: relax.Expr, bias: relax.Expr | None = None
) -> relax.Expr:
    return fast_gelu(emit, matmul.matmul(emit, data, weight), bias)
