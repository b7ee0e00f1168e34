# SPDX-License-Identifier: Apache-2.0
"""Resizing and sampling of images, by PyTorch's definitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from tvm import relax

from ....sizes.size import is_open
from ...emitter import constant, shape_of
from ...onnx.interpolation import Interpolation
from ...onnx.operators.image import interpolated
from ...onnx.operators.regions import aligned, max_roi_pool, parted
from ...onnx.operators.sampling import grid_sample
from ...onnx.operators.table import Value
from ..node_emitter import AtenEmitter
from .open_resizing import Resizing
from .table import Converter, operator

if TYPE_CHECKING:
    import torch

Factors = Sequence[float] | None


def _nearest(rank: int, *, exact: bool) -> Converter:
    def convert(
        emit: AtenEmitter, data: relax.Expr, _: Sequence[int] | None, factors: Factors = None
    ) -> relax.Expr:
        # PyTorch's kernels of images, and of channels last, ignore a factor where it leaves a size
        # or doubles it, up to a part of an element.
        ignores = not exact and (rank == 2 or _is_channels_last(emit.argument(0)))
        if is_open((*shape_of(data), *emit.shape)):
            for resizing in _resizings(emit, data, factors):
                data = resizing.nearest(emit, data, exact=exact, ignores=ignores)
            return data
        along = {}
        for axis, new_size in enumerate(emit.shape[2:], 2):
            size = shape_of(data)[axis]
            factor = factors[axis - 2] if factors else None
            if ignores and new_size in (size, 2 * size):
                factor = None
            places = _nearest_places(size, new_size, factor, exact)
            times = new_size // size
            if new_size % size == 0 and (places == np.arange(new_size) // times).all():
                each = Interpolation(size, new_size, times, "nearest", "asymmetric", "floor")
                along[axis] = each
            else:
                data = emit(relax.op.take(data, constant(places), axis, "clip"))
        return interpolated(emit, data, along)

    return convert


def _resizings(
    emit: AtenEmitter, data: relax.Expr, factors: Factors, *, aligned: bool = False
) -> list[Resizing]:
    """Return how each axis is resized that is, where lengths stay open."""
    given = [None] * len(emit.shape[2:]) if factors is None or aligned else factors
    resizings = [
        Resizing(axis, new_size, factor, aligned)
        for axis, (new_size, factor) in enumerate(zip(emit.shape[2:], given, strict=True), 2)
    ]
    return [each for each in resizings if each.changes(data)]


def _is_channels_last(tensor: torch.Tensor) -> bool:
    import torch

    return tensor.ndim == 5 and tensor.is_contiguous(memory_format=torch.channels_last_3d)


def _nearest_places(size: int, new_size: int, factor: float | None, exact: bool) -> np.ndarray:
    """Return the elements that are taken; PyTorch computes them in float32."""
    scale = np.float32(1.0 / factor if factor else size / new_size)
    places = np.arange(new_size, dtype="float32")
    moved = (places + np.float32(0.5)) * scale if exact else places * scale
    return np.minimum(np.floor(moved), size - 1).astype("int64")


for _rank in (1, 2, 3):
    operator(f"upsample_nearest{_rank}d.vec")(_nearest(_rank, exact=False))
    operator(f"_upsample_nearest_exact{_rank}d.vec")(_nearest(_rank, exact=True))


def _smooth(mode: str, *, antialias: bool = False) -> Converter:
    def convert(
        emit: AtenEmitter,
        data: relax.Expr,
        _: Sequence[int] | None,
        aligned: bool,
        factors: Factors = None,
    ) -> relax.Expr:
        if antialias and aligned:
            raise emit.error("aligns corners where it filters, which is not supported.")
        if is_open((*shape_of(data), *emit.shape)):
            if antialias:
                raise emit.error("filters an axis whose length stays open, which is not supported.")
            for each in _resizings(emit, data, factors, aligned=aligned):
                data = each.linear(emit, data) if mode == "linear" else each.cubic(emit, data)
            return data
        along = {}
        for axis, new_size in enumerate(emit.shape[2:], 2):
            size = shape_of(data)[axis]
            factor = factors[axis - 2] if factors and not aligned else None
            if new_size == size and (antialias or mode == "linear"):
                factor = None  # PyTorch's kernels ignore a factor that leaves the size
            along[axis] = Interpolation(
                size,
                new_size,
                factor or new_size / size,
                mode,
                "align_corners" if aligned else "half_pixel",
                alpha=-0.5 if antialias else -0.75,
                antialias=antialias,
                exclude_outside=antialias,
            )
        return interpolated(emit, data, along)

    return convert


for _name, _mode in (("linear1d", "linear"), ("bilinear2d", "linear"), ("trilinear3d", "linear"),
                     ("bicubic2d", "cubic")):  # fmt: skip
    operator(f"upsample_{_name}.vec")(_smooth(_mode))
for _name, _mode in (("bilinear2d", "linear"), ("bicubic2d", "cubic")):
    operator(f"_upsample_{_name}_aa.vec")(_smooth(_mode, antialias=True))


@operator("grid_sampler_2d.default", "grid_sampler_3d.default")
def grid_sampler(
    emit: AtenEmitter, data: relax.Expr, grid: relax.Expr, method: int, padding: int, aligned: bool
) -> relax.Expr:
    return grid_sample(
        emit,
        data,
        grid,
        mode=("bilinear", "nearest", "bicubic")[method],
        padding_mode=("zeros", "border", "reflection")[padding],
        align_corners=int(aligned),
    )


@operator("torchvision.roi_align.default")
def regions(
    emit: AtenEmitter,
    data: relax.Expr,
    boxes: relax.Expr,
    scale: float,
    height: int,
    width: int,
    ratio: int,
    half_pixel: bool,
) -> relax.Expr:
    """Pool samples of regions, whose boxes begin with the number of the image."""
    images, corners = parted(emit, boxes)
    return aligned(
        emit,
        data,
        corners,
        images,
        half_pixel=half_pixel,
        output_height=height,
        output_width=width,
        sampling_ratio=max(ratio, 0),
        spatial_scale=scale,
    )


@operator("torchvision.roi_pool.default")
def largest_of_regions(
    emit: AtenEmitter, data: relax.Expr, boxes: relax.Expr, scale: float, height: int, width: int
) -> Value:
    if emit.wants(1):
        raise emit.error("returns places of the largest elements, which is not supported.")
    found = max_roi_pool(emit, data, boxes, pooled_shape=[height, width], spatial_scale=scale)
    return (found, None)
