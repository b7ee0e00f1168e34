# SPDX-License-Identifier: Apache-2.0
"""The columns of deformed convolutions."""

from __future__ import annotations

from ....graph.operators import Operator
from ....lowering.no_rule import NoRule
from ....ops.deformed import columns_of
from ....ops.epilogue import NOTHING
from ..kernels.layout import PLAIN
from ..kernels.maps.deformed import columns_kernel
from .base import Choice, LoweringConfig
from .bindings import InputBinder


def deformed_columns(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Collect what the windows of a deformed convolution read.

    Raises
    ------
    NoRule
        If the function that is called is another one, or computes in double precision, or other
        operations follow.
    """
    columns = columns_of(op.functions[op.call.args[0]])
    if columns is None or columns.dtype != "float32" or op.epilogue != NOTHING:
        raise NoRule
    bindings = tuple(map(binder.plain, op.call.args[1].fields))
    return Choice(columns_kernel(columns, config.core), bindings, PLAIN)
