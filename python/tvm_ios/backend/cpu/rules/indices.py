# SPDX-License-Identifier: Apache-2.0
"""Indices that are checked while a network runs."""

from __future__ import annotations

from ....graph.operators import Operator
from ....lowering.no_rule import NoRule, shape_of
from ....ops.index_check import check_of
from ....sizes.size import size_of
from ..kernels.layout import PLAIN
from ..kernels.rows.index_check import index_check_kernel
from .base import Choice, LoweringConfig
from .bindings import InputBinder


def check_indices(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Check indices; the driver raises the error.

    Raises
    ------
    NoRule
        If the function that is called is another one, or there are no indices.
    """
    indices, *opened = op.call.args[1].fields
    check = check_of(op.functions[op.call.args[0]], map(size_of, opened))
    if check is None:
        raise NoRule
    kernel = index_check_kernel(shape_of(indices), str(indices.ty.dtype), *check)
    return Choice(kernel, (binder.plain(indices),), PLAIN)
