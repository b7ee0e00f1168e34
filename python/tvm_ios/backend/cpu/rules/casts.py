# SPDX-License-Identifier: Apache-2.0
"""Casts between float32 and the integers of quantised networks."""

from __future__ import annotations

from ....graph.operators import Operator
from ....graph.rearrange import Rearrangement
from ....lowering.no_rule import NoRule, shape_of
from ....relax_ir.expressions import is_float32
from ..isa.int8 import WHOLE, Integers
from .base import Choice, LoweringConfig
from .bindings import InputBinder
from .strided import mapped


def cast(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Cast a tensor, and compute its epilogue in float32.

    Raises
    ------
    NoRule
        For other types than float32 and those of :data:`~..isa.int8.WHOLE`.
    """
    source, result = op.call.args[0], op.call
    dtypes = str(source.ty.dtype), str(result.ty.dtype)
    moved = Rearrangement.of(shape_of(source))
    if is_float32(result) and dtypes[0] in WHOLE:
        return mapped(op, source, moved, binder, config, read=Integers(dtypes[0]))
    if is_float32(source) and dtypes[1] in WHOLE:
        return mapped(op, source, moved, binder, config, written=Integers(dtypes[1]))
    raise NoRule
