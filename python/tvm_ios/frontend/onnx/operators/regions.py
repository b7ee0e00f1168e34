# SPDX-License-Identifier: Apache-2.0
"""Pooling of regions of images."""

from __future__ import annotations

from typing import Any

from tvm import relax

from ....ops.region_parts import RegionPool
from ....ops.regions import pool_regions
from ...emitter import dtype_of, shape_of
from ..node_emitter import NodeEmitter
from .table import operator

_COORDINATES = ("half_pixel", "output_half_pixel")
_ALIGNED = frozenset(("mode", "output_height", "output_width", "sampling_ratio", "spatial_scale"))


@operator("RoiAlign", since=16, shared=_ALIGNED)
def roi_align(
    emit: NodeEmitter,
    data: relax.Expr,
    rois: relax.Expr,
    batch_indices: relax.Expr,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    **attributes: Any,
) -> relax.Expr:
    if coordinate_transformation_mode not in _COORDINATES:
        raise emit.error(f"has coordinates {coordinate_transformation_mode!r}, which are unknown.")
    half = coordinate_transformation_mode == "half_pixel"
    return aligned(emit, data, rois, batch_indices, half_pixel=half, **attributes)


@operator("RoiAlign", shared=_ALIGNED)
def roi_align_from_corners(
    emit: NodeEmitter,
    data: relax.Expr,
    rois: relax.Expr,
    batch_indices: relax.Expr,
    **attributes: Any,
) -> relax.Expr:
    return aligned(emit, data, rois, batch_indices, half_pixel=False, **attributes)


def aligned(
    emit: NodeEmitter,
    data: relax.Expr,
    rois: relax.Expr,
    batch_indices: relax.Expr,
    *,
    half_pixel: bool,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> relax.Expr:
    """Pool interpolated samples of the parts of regions ``[x1, y1, x2, y2]``."""
    if mode not in ("avg", "max"):
        raise emit.error(f"has the mode {mode!r}, which is neither avg nor max.")
    if sampling_ratio < 0:
        raise emit.error(f"has a sampling_ratio of {sampling_ratio}, which must not be negative.")
    pool = RegionPool(
        kind="average" if mode == "avg" else "max of corners",
        parts=(output_height, output_width),
        scale=spatial_scale,
        samples=sampling_ratio,
        half_pixel=half_pixel,
    )
    return _pooled(emit, pool, data, rois, batch_indices)


@operator("MaxRoiPool")
def max_roi_pool(
    emit: NodeEmitter,
    data: relax.Expr,
    rois: relax.Expr,
    *,
    pooled_shape: list[int],
    spatial_scale: float = 1.0,
) -> relax.Expr:
    """Return the largest elements of the parts of regions ``[image, x1, y1, x2, y2]``."""
    if len(pooled_shape) != 2:
        raise emit.error(f"has a pooled_shape of {len(pooled_shape)} numbers, which must be 2.")
    images, corners = parted(emit, rois)
    pool = RegionPool("max", (pooled_shape[0], pooled_shape[1]), spatial_scale)
    return _pooled(emit, pool, data, corners, images)


def parted(emit: NodeEmitter, rois: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
    """Return the numbers of images, and the corners, of regions ``[image, x1, y1, x2, y2]``."""
    if len(shape_of(rois)) != 2 or shape_of(rois)[1] != 5:
        raise emit.error(f"has regions of {list(shape_of(rois))}, which must be rows of 5 numbers.")
    images = emit.reshape(emit.slice(rois, 1, 0, 1), [shape_of(rois)[0]])
    return emit.cast(images, "int64"), emit.slice(rois, 1, 1, 5)


def _pooled(
    emit: NodeEmitter, pool: RegionPool, data: relax.Expr, rois: relax.Expr, images: relax.Expr
) -> relax.Expr:
    """Pool regions ``[x1, y1, x2, y2]``, each of the image of its number."""
    shape, count = shape_of(data), shape_of(rois)[0]
    if len(shape) != 4 or shape_of(rois) != (count, 4) or shape_of(images) != (count,):
        raise emit.error(
            f"has data of {list(shape)}, regions of {list(shape_of(rois))} and "
            f"{list(shape_of(images))} numbers of images, which do not fit each other."
        )
    if min(*shape, *pool.parts) < 1:
        raise emit.error(f"pools data of {list(shape)} in {list(pool.parts)} parts.")
    result, dtype = [count, shape[1], *pool.parts], dtype_of(data)
    if not count:
        return emit.filled(result, 0, dtype)
    computed = "float64" if dtype == "float64" else "float32"
    # What is taken is the number itself, which is checked by it.
    checked = emit(relax.op.take(emit.positions(shape[0], "int64"), images, 0))
    images, corners = emit.cast(data, computed), emit.cast(rois, computed)
    return emit.cast(pool_regions(emit.builder, pool, images, corners, checked), dtype)
