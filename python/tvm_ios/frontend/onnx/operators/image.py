# SPDX-License-Identifier: Apache-2.0
"""Resizing of images."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from tvm import relax

from ....sizes.arithmetic import is_empty, require_least, require_most
from ....sizes.ratio import SingleRatio
from ....sizes.size import AnySize, Size, is_open, known_equal
from ...emitter import constant, dtype_of, shape_of
from ..interpolation import COORDINATES, NEAREST, Interpolation
from ..node_emitter import NodeEmitter
from ..numbers import is_float
from .open_interpolation import along_open_axis
from .table import operator

_MODES = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "cubic": "cubic"}
_POLICIES = {"not_larger": min, "not_smaller": max}
_OF_TVM = ("align_corners", "asymmetric", "half_pixel")
"""Coordinates that TVM's operators compute exactly where the scale is the ratio of the sizes."""

_LARGEST_DIVISOR = 1024
_MOST_SCALED = 1 << 16
"""Of an open size, whose products with a factor are those with a fraction, which is tried."""


@operator("Resize", since=11)
def resize(
    emit: NodeEmitter,
    data: relax.Expr,
    roi: relax.Expr | None = None,
    scales: relax.Expr | None = None,
    sizes: relax.Expr | None = None,
    *,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> relax.Expr:
    ndim = len(shape_of(data))
    chosen = list(range(ndim)) if axes is None else emit.axes(axes, ndim)
    _check(emit, coordinate_transformation_mode, COORDINATES)
    _check(emit, mode, _MODES)
    _check(emit, nearest_mode, NEAREST)
    lengths = [shape_of(data)[axis] for axis in chosen]
    factors, results = _sizes(emit, lengths, scales, sizes, keep_aspect_ratio_policy)
    region = [0.0] * len(chosen) + [1.0] * len(chosen)
    if coordinate_transformation_mode == "tf_crop_and_resize":
        if roi is None:
            raise emit.error("has no region to crop.")
        region = [float(x) for x in emit.array(roi, "its region").reshape(-1)]
    along = {
        axis: Interpolation(
            lengths[i],
            results[i],
            factors[i],
            _MODES[mode],
            coordinate_transformation_mode,
            nearest_mode,
            cubic_coeff_a,
            bool(antialias),
            bool(exclude_outside),
            (region[i], region[len(chosen) + i]),
        )
        for i, axis in enumerate(chosen)
    }
    return interpolated(emit, data, along, extrapolation_value)


@operator("Resize", since=10)
@operator("Upsample")
def upsample(
    emit: NodeEmitter, data: relax.Expr, scales: relax.Expr, *, mode: str = "nearest"
) -> relax.Expr:
    """Resize with the first element at the first, and the nearest element below."""
    return resize(
        emit,
        data,
        None,
        scales,
        coordinate_transformation_mode="asymmetric",
        mode=mode,
        nearest_mode="floor",
    )


def _check(emit: NodeEmitter, name: str, known: Any) -> None:
    if name not in known:
        raise emit.error(f"has the mode {name!r}; there are: {', '.join(known)}.")


def _sizes(
    emit: NodeEmitter,
    lengths: Sequence[AnySize],
    scales: relax.Expr | None,
    sizes: relax.Expr | None,
    policy: str,
) -> tuple[list[float | None], list[AnySize]]:
    """Return the factor and the new size of each axis; no factor for the ratio of open sizes."""
    factors: list[float | None] = []
    if scales is not None and not is_empty(shape_of(scales)):
        given = emit.array(scales, "its scales").reshape(-1)
        if any(isinstance(number, Fraction | SingleRatio | Size) for number in given):
            raise emit.error("scales by numbers that depend on open sizes; give these sizes.")
        factors = [float(number) for number in given]
        wanted = [_scaled(emit, n, f) for n, f in zip(lengths, given, strict=True)]
    elif sizes is not None:
        wanted = emit.integers(sizes, "its sizes")
        if is_open((*wanted, *lengths)) and policy == "stretch":
            factors = [_ratio(new, old) for new, old in zip(wanted, lengths, strict=True)]
            return factors, wanted
        if is_open((*wanted, *lengths)):
            raise emit.error("keeps the aspect ratio of open sizes; give these sizes.")
        ratios = [new / old for new, old in zip(wanted, lengths, strict=True)]
        factors = [*ratios]
        if policy in _POLICIES:
            common = _POLICIES[policy](ratios)
            wanted = [int(np.floor(common * n + 0.5)) for n in lengths]
            factors = [common] * len(lengths)
        elif policy != "stretch":
            raise emit.error(f"has the policy {policy!r}, which is not known.")
    else:
        raise emit.error("has neither scales nor sizes.")
    if not all(require_least(size, 1) for size in (*wanted, *lengths)):
        raise emit.error(f"resizes {list(lengths)} to {wanted}.")
    return factors, wanted


def _ratio(new: AnySize, old: AnySize) -> float | None:
    """Return the ratio of sizes, if it does not depend on open ones."""
    if known_equal(new, old):
        return 1.0
    if not is_open((new, old)):
        return new / old
    whole = new // old
    return None if is_open([whole]) or not known_equal(whole * old, new) else float(whole)


def _scaled(emit: NodeEmitter, size: AnySize, factor: np.float32) -> AnySize:
    """Return a size times a factor, as it is rounded in single precision."""
    if not isinstance(size, Size):
        return int(np.float32(size) * np.float32(factor))
    exact = Fraction(float(factor)).limit_denominator(_LARGEST_DIVISOR)
    tried = np.arange(1, _MOST_SCALED + 1)
    rounded = (tried.astype("float32") * np.float32(factor)).astype("int64")
    if (tried * exact.numerator // exact.denominator != rounded).any():
        raise emit.error(f"scales an open size by {factor:g}, whose products are rounded; give it.")
    if exact.denominator > 1 and not require_most(size, _MOST_SCALED):
        raise emit.error(f"scales more than {_MOST_SCALED} elements by {factor:g}.")
    return size * exact.numerator // exact.denominator


def interpolated(
    emit: NodeEmitter, data: relax.Expr, along: dict[int, Interpolation], outside: float = 0.0
) -> relax.Expr:
    """Interpolate axes, each by its own definition; ``outside`` is what lies beyond the ends."""
    changed = {axis: each for axis, each in along.items() if not each.is_identity}
    for each in changed.values():
        if each.is_open:
            _check_corners(emit, each)
            continue
        product = each.size * each.ratio
        if each.coordinates == "align_corners" and each.ratio < 1 and product % 1 > 1e-4:
            # ONNX's own tests align the corner of the fractional size, its text that of the
            # rounded one, as PyTorch and ONNX Runtime do.
            raise emit.error(
                f"aligns the corners of a size of {product:g}, which ONNX leaves open; export the "
                "model with sizes instead of scales."
            )
    if _is_of_tvm(data, changed):
        return _by_tvm(emit, data, changed)
    dtype = dtype_of(data)
    emit.reject_truths(data)
    if not is_float(dtype) and any(each.mode != "nearest" for each in changed.values()):
        if dtype not in ("int8", "int32", "uint8"):
            raise emit.error(f"interpolates {dtype}, which is not supported; cast it to float.")
        data = emit.cast(data, "float32")  # as ONNX Runtime does, which truncates the result
    for axis, each in changed.items():
        along_axis = along_open_axis if each.is_open else _along
        data = along_axis(emit, data, axis, each, outside)
    return data if dtype_of(data) == dtype else emit.cast(data, dtype)


def _check_corners(emit: NodeEmitter, each: Interpolation) -> None:
    shrinks = each.scale is not None and each.scale < 1
    if each.coordinates == "align_corners" and shrinks and not each.is_of_ratio:
        raise emit.error(
            f"aligns the corners of an open size times {each.scale:g}, which ONNX leaves open; "
            "export the model with sizes instead of scales."
        )


def _is_of_tvm(data: relax.Expr, along: dict[int, Interpolation]) -> bool:
    """Return whether TVM's operator of images computes exactly this."""
    return (
        len(shape_of(data)) == 4
        and bool(along)
        and set(along) <= {2, 3}
        and dtype_of(data) == "float32"
        and all(
            each.coordinates in _OF_TVM
            and not (each.is_open and each.coordinates == "align_corners")  # 0 / 0 of one element
            and each.is_of_ratio
            and not each.antialias
            and not each.exclude_outside
            and (each.mode != "nearest" or each.is_whole)
            for each in along.values()
        )
    )


def _by_tvm(emit: NodeEmitter, data: relax.Expr, along: dict[int, Interpolation]) -> relax.Expr:
    each = next(iter(along.values()))
    size = [along[a].new_size if a in along else shape_of(data)[a] for a in (2, 3)]
    return emit(
        relax.op.image.resize2d(
            data,
            tuple(size),
            layout="NCHW",
            method="nearest_neighbor" if each.mode == "nearest" else each.mode,
            coordinate_transformation_mode=each.coordinates,
            rounding_method=each.nearest,
            cubic_alpha=each.alpha,
        )
    )


def _along(
    emit: NodeEmitter, data: relax.Expr, axis: int, each: Interpolation, outside: float
) -> relax.Expr:
    """Interpolate an axis: by one element, by two, or by a product with the matrix."""
    emit.allocate([each.new_size, each.size], "float64")
    matrix = each.matrix()
    beyond = each.outside()
    if each.mode == "nearest" and not beyond.any():
        return emit(relax.op.take(data, constant(matrix.argmax(1)), axis, "clip"))
    taps = int((matrix != 0).sum(1).max())
    if taps <= 2:
        data = _of_two(emit, data, axis, matrix)
    else:
        ndim = len(shape_of(data))
        order = [a for a in range(ndim) if a != axis] + [axis]
        rows = emit.transpose(data, order)
        product = emit(relax.op.matmul(rows, constant(matrix.T.astype(dtype_of(data)))))
        data = emit.transpose(product, [order.index(a) for a in range(ndim)])
    if not beyond.any() or outside == 0.0:
        return data
    offsets = constant((beyond * outside).astype(dtype_of(data)))
    return emit(relax.op.add(data, emit.along(offsets, axis, len(shape_of(data)))))


def _of_two(emit: NodeEmitter, data: relax.Expr, axis: int, matrix: np.ndarray) -> relax.Expr:
    """Add two elements by their weights."""
    order = np.argsort(matrix == 0, axis=1, kind="stable")[:, :2]
    terms = []
    for column in order.T:
        weights = np.take_along_axis(matrix, column[:, None], 1)[:, 0].astype(dtype_of(data))
        taken = emit(relax.op.take(data, constant(column.astype("int64")), axis, "clip"))
        if (weights == 1).all():
            terms.append(taken)
            continue
        factors = emit.along(constant(weights), axis, len(shape_of(data)))
        terms.append(emit(relax.op.multiply(taken, factors)))
    return terms[0] if len(terms) == 1 else emit(relax.op.add(*terms))
