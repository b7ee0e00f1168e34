# SPDX-License-Identifier: Apache-2.0
"""Pooling of regions of images."""

from __future__ import annotations

from ....graph.operators import Operator
from ....lowering.no_rule import NoRule, shape_of
from ....ops.regions import pool_of
from ....relax_ir.expressions import is_float32
from ..kernels.layout import Layout
from ..kernels.maps.regions import Regions, regions_kernel
from .base import Choice, LoweringConfig, epilogue_inputs
from .bindings import InputBinder


def regions(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Pool the parts of regions.

    Raises
    ------
    NoRule
        If the function that is called is another one, or computes in double precision.
    """
    pool = pool_of(op.functions[op.call.args[0]])
    data, corners, images = op.call.args[1].fields
    if pool is None or not is_float32(data):
        raise NoRule
    layout = Layout(config.core.lanes)
    batch, channels, height, width = shape_of(data)
    count = shape_of(corners)[0]
    pooled = Regions(pool, batch, channels, height, width, count, op.epilogue)
    bindings = (
        binder.feature_map(data, layout),
        binder.plain(corners),
        binder.plain(images),
        *epilogue_inputs(op, binder, layout),
    )
    return Choice(regions_kernel(pooled, layout, config.core), bindings, layout)
