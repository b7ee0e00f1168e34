# SPDX-License-Identifier: Apache-2.0
"""Open sizes that a network computes with."""

from __future__ import annotations

from tvm import relax

from ....graph.operators import Operator
from ....lowering.no_rule import NoRule
from ....sizes.size import size_of
from ..kernels.layout import PLAIN
from ..kernels.rows.sizes import sizes_kernel
from .base import Choice, LoweringConfig
from .bindings import InputBinder


def shape_to_tensor(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Write the sizes of a shape.

    Raises
    ------
    NoRule
        If they are not written out, or there are none.
    """
    shape = op.call.args[0]
    if not isinstance(shape, relax.ShapeExpr) or not shape.values:
        raise NoRule
    return Choice(sizes_kernel(tuple(map(size_of, shape.values))), (), PLAIN)
