# SPDX-License-Identifier: Apache-2.0
"""Operators that ONNX has by now, in the forms that ONNX Runtime had them before."""

from __future__ import annotations

from tvm import relax

from ....emitter import shape_of
from ...node_emitter import NodeEmitter
from .. import create, index, parts, sampling, shapes
from .domain import contributed

contributed("GatherND")(index.gather_nd)
contributed("Pad")(parts.pad)
contributed("Trilu")(parts.trilu)


@contributed("ExpandDims")
def expand_dims(emit: NodeEmitter, data: relax.Expr, axis: relax.Expr) -> relax.Expr:
    return shapes.unsqueeze(emit, data, axis)


@contributed("GridSample")
def grid_sample(
    emit: NodeEmitter,
    data: relax.Expr,
    grid: relax.Expr,
    *,
    align_corners: int = 0,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
) -> relax.Expr:
    if len(shape_of(data)) != 4:
        raise emit.error(f"has data of {list(shape_of(data))}; it must have 4 axes.")
    return sampling.grid_sample(
        emit, data, grid, align_corners=align_corners, mode=mode, padding_mode=padding_mode
    )


@contributed("Range")
def range_(
    emit: NodeEmitter, start: relax.Expr, limit: relax.Expr, delta: relax.Expr | None = None
) -> relax.Expr:
    """Return numbers in steps of 1 unless another one is given."""
    step = emit.scalar(1, start) if delta is None else delta
    return create.range_(emit, start, limit, step)
