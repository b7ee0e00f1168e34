# SPDX-License-Identifier: Apache-2.0
"""What a rule raises for an operator that it does not cover, and what all of them need."""

from __future__ import annotations

import math

from tvm import relax

from ..relax_ir.expressions import op_name, static_shape
from ..sizes.size import AnyShape, known_equal


class NoRule(Exception):
    """No rule covers an operator; another way of computing it has to be found."""


def shape_of(expr: relax.Expr) -> AnyShape:
    """Return the known shape of a tensor; raise NoRule for any other."""
    if not isinstance(expr.ty, relax.TensorType) or expr.ty.shape is None:
        raise NoRule
    shape = static_shape(expr, op_name(expr) or "a tensor")
    if known_equal(math.prod(shape), 0):
        raise NoRule
    return shape
