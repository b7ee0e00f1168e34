# SPDX-License-Identifier: Apache-2.0
"""Casts between float32 and the integers of quantised networks."""

from __future__ import annotations

import numpy as np

from ....graph.operators import Operator
from ....graph.rearrange import Rearrangement
from ....lowering.no_rule import NoRule, shape_of
from ....ops.epilogue import Epilogue, Operand, Step
from ....relax_ir.expressions import is_float32
from ..isa.int8 import STORED, WHOLE, Grid, Integers
from ..isa.storage import Bytes
from ..kernels.layout import PLAIN
from ..kernels.rows.strided import strided_kernel
from ..kernels.rows.strided_axes import StridedMap
from ..kernels.storage import with_storage
from .base import Choice, LoweringConfig, row_major
from .bindings import InputBinder, InputBinding
from .strided import mapped

_BYTES = ("int8", STORED)


def cast(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Cast a tensor, and compute its epilogue in float32.

    Raises
    ------
    NoRule
        For other types than float32 and those of :data:`~..isa.int8.WHOLE`.
    """
    source, result = op.call.args[0], op.call
    dtypes = str(source.ty.dtype), str(result.ty.dtype)
    grid = binder.format(op.outputs[0])
    if isinstance(grid, Grid) and dtypes[0] in _BYTES and _keeps_bytes(op.epilogue, dtypes[0]):
        return _copied(op, binder.plain(source), (dtypes[0], STORED), config)
    grid = binder.format(source)
    if isinstance(grid, Grid) and dtypes[1] in _BYTES and grid == _all_bytes(dtypes[1]):
        return _copied(op, binder.on_grid(source, PLAIN, grid), (STORED, dtypes[1]), config)
    moved = Rearrangement.of(shape_of(source))
    if is_float32(result) and dtypes[0] in WHOLE:
        return mapped(op, source, moved, binder, config, read=Integers(dtypes[0]))
    if is_float32(source) and dtypes[1] in WHOLE:
        return mapped(op, source, moved, binder, config, written=Integers(dtypes[1]))
    raise NoRule


def _all_bytes(dtype: str) -> Grid:
    """Return the grid of all integers of a type."""
    return Grid(1.0, int(np.iinfo(dtype).min))


def _copied(
    op: Operator, source: InputBinding, dtypes: tuple[str, str], config: LoweringConfig
) -> Choice:
    """Copy bytes, each by its distance from the lowest one of its type."""
    moved = Rearrangement.of(shape_of(op.call))
    copy = strided_kernel(StridedMap(moved.stored, moved.strides), config.core)
    kernel = with_storage(copy, {0: Bytes(dtypes[0])}, {0: Bytes(dtypes[1])})
    return row_major(kernel, (source,), op)


def _keeps_bytes(epilogue: Epilogue, dtype: str) -> bool:
    """Return whether a result's place on its grid is the byte itself, counted from the lowest.

    The zero point is subtracted from the byte then, which is rounded and clipped to all bytes.
    """
    steps, limits, zero = list(epilogue.steps), np.iinfo(dtype), 0.0
    if steps and steps[0].op == "subtract" and steps[0].operands[1].kind == "constant":
        zero = steps[0].operands[1].index
        if steps.pop(0).operands[0] != Operand("value", 0):
            return False
    first = len(epilogue.steps) - len(steps)
    low, high = (Operand("constant", float(n - zero)) for n in (limits.min, limits.max))
    expected = [
        Step("round", (Operand("value", first),)),
        Step("clip", (Operand("value", first + 1), low, high)),
    ]
    scaled = steps[2:]
    factors = [step for step in scaled if step.op == "multiply" and not epilogue.arguments]
    return steps[:2] == expected and scaled == factors and len(scaled) <= 1
