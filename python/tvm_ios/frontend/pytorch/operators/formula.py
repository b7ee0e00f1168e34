# SPDX-License-Identifier: Apache-2.0
"""Formulas of tensors in the type of an operator's result."""

from __future__ import annotations

from collections.abc import Callable

from tvm import relax

from ...emitter import dtype_of
from ...onnx.operators.formula import Term
from ..node_emitter import AtenEmitter


def terms(emit: AtenEmitter, *values: relax.Expr | float, dtype: str | None = None) -> list[Term]:
    """Return tensors and numbers in a type, by default that of the result."""
    return [Term(emit, emit.operand(value, dtype)) for value in values]


def in_float64(
    emit: AtenEmitter, value: relax.Expr, function: Callable[[Term], Term]
) -> relax.Expr:
    """Return a function that is computed in float64, in the type of the result.

    A formula that loses some digits has those of float32 left.
    """
    (x,) = terms(emit, value, dtype="float64")
    return function(x).to(emit.dtype).expr


def is_nan(x: Term) -> Term:
    """Return where a tensor is not a number; integers never are."""
    if dtype_of(x.expr).startswith(("float", "bfloat")):
        return x.of(relax.op.isnan)
    return x < x
