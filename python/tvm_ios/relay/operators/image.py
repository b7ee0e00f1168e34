# SPDX-License-Identifier: Apache-2.0
"""Resizing and sampling of images."""

from __future__ import annotations

from functools import reduce
from itertools import product
from typing import Any

from tvm import relax

from ...frontend.emitter import Emitter, dtype_of, shape_of
from ..ast import Attribute
from .layouts import is_plain, relayout, sizes_of
from .table import Converter, both_sides, given_dtype, integers, operator

Sizes = tuple[int, ...]

_CUBIC_ALPHA = -0.5  # Relay's default, which differs from Relax's


def _resized(
    emit: Emitter, data: relax.Expr, spatial: str, size: Sizes, layout: str, **options: Any
) -> relax.Expr:
    """Resize an image of one, two or three dimensions."""
    if spatial == "W":
        return _resized_row(emit, data, size, layout, **options)
    plain = layout if is_plain(layout) else f"NC{spatial}"
    build = getattr(relax.op.image, f"resize{len(spatial)}d")
    data = relayout(emit, data, layout, plain)
    return relayout(emit, emit(build(data, size, layout=plain, **options)), plain, layout)


def _resized_row(
    emit: Emitter, data: relax.Expr, size: Sizes, layout: str, roi: Any, **options: Any
) -> relax.Expr:
    """Resize a row as an image of two equal rows, and keep one."""
    row = relayout(emit, data, layout, "NCW")
    n, c, w = shape_of(row)
    image = emit(relax.op.broadcast_to(emit.reshape(row, (n, c, 1, w)), (n, c, 2, w)))
    roi = (0.0, roi[0], 1.0, roi[1]) if roi else None
    result = _resized(emit, image, "HW", (2, *size), "NCHW", roi=roi, **options)
    first = emit.reshape(emit.slice(result, 2, 0, 1), (n, c, *size))
    return relayout(emit, first, "NCW", layout)


def _resize(spatial: str) -> Converter:
    rank = len(spatial)

    def convert(
        emit: Emitter,
        data: relax.Expr,
        *,
        size: Attribute,
        roi: tuple[float, ...] | None = None,
        layout: str = f"NC{spatial}",
        method: str = "linear",
        coordinate_transformation_mode: str = "half_pixel",
        rounding_method: str = "round",
        cubic_alpha: float = _CUBIC_ALPHA,
        cubic_exclude: int = 0,
        extrapolation_value: float = 0.0,
        out_dtype: str | None = None,
    ) -> relax.Expr:
        wanted = given_dtype(out_dtype) or dtype_of(data)
        if wanted.startswith("float"):  # before anything is rounded
            data = emit.cast(data, wanted)
        options = {
            "roi": tuple(map(float, roi)) if roi else None,
            "method": method,
            "coordinate_transformation_mode": coordinate_transformation_mode,
            "rounding_method": rounding_method,
            "cubic_alpha": cubic_alpha,
            "cubic_exclude": cubic_exclude,
            "extrapolation_value": extrapolation_value,
        }
        sizes = integers(emit, size, rank, "size")
        return emit.cast(_resized(emit, data, spatial, sizes, layout, **options), wanted)

    return convert


operator("image.resize1d")(_resize("W"))
operator("image.resize2d")(_resize("HW"))
operator("image.resize3d")(_resize("DHW"))


def _scaled(sizes: Sizes, scales: tuple[float, ...]) -> Sizes:
    return tuple(round(size * scale) for size, scale in zip(sizes, scales, strict=True))


@operator("nn.upsampling")
def upsampling(
    emit: Emitter,
    data: relax.Expr,
    *,
    scale_h: float,
    scale_w: float,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
) -> relax.Expr:
    image = sizes_of(emit, data, layout, "HW")
    return _resized(
        emit,
        data,
        "HW",
        _scaled(image, (scale_h, scale_w)),
        layout,
        method=method.removeprefix("bi"),
        coordinate_transformation_mode="align_corners" if align_corners else "asymmetric",
        rounding_method="",
        cubic_alpha=_CUBIC_ALPHA,
    )


@operator("nn.upsampling3d")
def upsampling3d(
    emit: Emitter,
    data: relax.Expr,
    *,
    scale_d: float,
    scale_h: float,
    scale_w: float,
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "half_pixel",
) -> relax.Expr:
    image = sizes_of(emit, data, layout, "DHW")
    return _resized(
        emit,
        data,
        "DHW",
        _scaled(image, (scale_d, scale_h, scale_w)),
        layout,
        method=method.removeprefix("tri"),
        coordinate_transformation_mode=coordinate_transformation_mode,
        rounding_method="",
        cubic_alpha=_CUBIC_ALPHA,
    )


@operator("image.grid_sample")
def grid_sample(
    emit: Emitter,
    data: relax.Expr,
    grid: relax.Expr,
    *,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> relax.Expr:
    sample = relax.op.image.grid_sample
    return emit(sample(data, grid, method, layout, padding_mode, bool(align_corners)))


@operator("image.affine_grid")
def affine_grid(emit: Emitter, data: relax.Expr, *, target_shape: Sizes) -> relax.Expr:
    return emit(relax.op.image.affine_grid(data, target_shape, align_corners=True))


@operator("image.dilation2d")
def dilation2d(
    emit: Emitter,
    data: relax.Expr,
    weight: relax.Expr,
    *,
    strides: Attribute = (1, 1),
    padding: Attribute = (0, 0),
    dilations: Attribute = (1, 1),
    data_layout: str = "NCHW",
    kernel_layout: str = "IHW",
    out_dtype: str | None = None,
) -> relax.Expr:
    """Compute the maximum over a window of zero-padded pixels, each plus its weight."""
    data = relayout(emit, data, data_layout, "NCHW")
    weight = relayout(emit, weight, kernel_layout, "IHW")
    channels, *kernel = shape_of(weight)
    steps, holes = integers(emit, strides, 2, "strides"), integers(emit, dilations, 2, "dilations")
    (top, left), (bottom, right) = both_sides(emit, padding, 2)
    data = emit(relax.op.nn.pad(data, [0, 0, 0, 0, top, bottom, left, right]))
    extent = [(k - 1) * hole for k, hole in zip(kernel, holes, strict=True)]
    ends = [size - e for size, e in zip(shape_of(data)[2:], extent, strict=True)]
    terms = []
    for y, x in product(*map(range, kernel)):
        begin = [y * holes[0], x * holes[1]]
        end = [b + e for b, e in zip(begin, ends, strict=True)]
        pixels = relax.op.strided_slice(data, [2, 3], begin, end, list(steps))
        added = emit.slice(emit.slice(weight, 1, y, y + 1), 2, x, x + 1)
        added = emit.reshape(added, (channels, 1, 1))
        terms.append(emit(relax.op.add(emit(pixels), added)))
    result = reduce(lambda a, b: emit(relax.op.maximum(a, b)), terms)
    result = emit.cast(result, given_dtype(out_dtype) or dtype_of(data))
    return relayout(emit, result, "NCHW", data_layout)
