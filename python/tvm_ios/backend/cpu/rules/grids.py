# SPDX-License-Identifier: Apache-2.0
"""Grids of 8 bits that the range of a tensor decides."""

from __future__ import annotations

import math

from ....graph.operators import Operator
from ....lowering.no_rule import NoRule, shape_of
from ..kernels.rows.value_range import grid_kernel
from .base import Choice, LoweringConfig, row_major
from .bindings import InputBinder


def dynamic_grid(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Find the grid of a tensor.

    Raises
    ------
    NoRule
        If the tuple of results itself is read.
    """
    if op.bindings[0].var in op.outputs:
        raise NoRule
    index = {binding.var: binding.value.index for binding in op.bindings[1:]}
    (data,) = op.call.args[1].fields
    read = [index[value] for value in op.outputs]
    kernel = grid_kernel(math.prod(shape_of(data)), read, config.core)
    return row_major(kernel, (binder.plain(data),), op)
