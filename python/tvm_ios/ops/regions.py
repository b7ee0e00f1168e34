# SPDX-License-Identifier: Apache-2.0
"""TIR functions that pool regions of images, which are divided into parts."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tvm import relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from .tir_function import on_stack

Expr = Any

_MANY = 2.0**23  # samples of a part along an axis, of which floating-point numbers skip none


@dataclass(frozen=True)
class RegionPool:
    """What is computed of each part of a region.

    Attributes
    ----------
    kind : "average", "max of corners" or "max"
        The mean of samples, which are interpolated; the largest of the pixels around the samples,
        times their weights, as ONNX has it; or the largest pixel of a part, whose ends are whole.
    parts : (int, int)
        Along the height and the width.
    scale : float
        What coordinates are multiplied by.
    samples : int
        Of a part along each axis; 0 for about one a pixel.
    half_pixel : bool
        Whether samples begin half a pixel before; otherwise regions are a pixel large at least.
    """

    kind: Literal["average", "max of corners", "max"]
    parts: tuple[int, int]
    scale: float = 1.0
    samples: int = 0
    half_pixel: bool = False


def pool_regions(
    builder: relax.BlockBuilder,
    pool: RegionPool,
    data: relax.Expr,
    regions: relax.Expr,
    images: relax.Expr,
) -> relax.Var:
    """Emit a pooling, and return its result.

    Parameters
    ----------
    builder : relax.BlockBuilder
    pool : RegionPool
    data : relax.Expr
        Images ``[batch, channels, height, width]`` of float32 or float64.
    regions : relax.Expr
        Rows ``[x1, y1, x2, y2]`` of the same type.
    images : relax.Expr
        The number of each region's image, int64, none of which is out of range.
    """
    shape, count = (tuple(map(int, x.ty.shape.values)) for x in (data, regions))
    dtype = str(data.ty.dtype)
    name = f"pool_regions_{zlib.crc32(repr((pool, shape, count, dtype)).encode()):08x}"
    function = builder.add_func(region_function(pool, shape, count[0], dtype, name), name)
    result = relax.TensorType((count[0], shape[1], *pool.parts), dtype)
    return builder.emit(relax.call_tir(function, [data, regions, images], result))


def region_function(
    pool: RegionPool, shape: Sequence[int], count: int, dtype: str, name: str
) -> tirx.PrimFunc:
    """Build a function of images, regions, the number of each region's image, and results.

    Parameters
    ----------
    pool : RegionPool
    shape : sequence of int
        Of the images.
    count : int
        The number of regions.
    dtype : str
        "float32" or "float64".
    name : str

    Returns
    -------
    tvm.tirx.PrimFunc
        A schedulable function: one block for each element of the result.
    """
    result = (count, shape[1], *pool.parts)
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(name)
        T.func_attr({"tirx.noalias": True})
        data = T.arg("data", T.buffer(tuple(shape), dtype))
        regions = T.arg("regions", T.buffer((count, 4), dtype))
        images = T.arg("images", T.buffer((count,), "int64"))
        results = T.arg("results", T.buffer(result, dtype))
        with T.grid(*result) as loops, T.sblock("part"):
            place = T.axis.remap("SSSS", loops)
            T.reads(*(_all_of(tensor) for tensor in (data, regions, images)))
            T.writes(results[tuple(place)])
            value = _Part(pool, (data, regions, images), place).emit()
            T.buffer_store(results, value, place)
    return builder.get()


def _all_of(tensor: Any) -> Any:
    return tensor[tuple(slice(0, int(size)) for size in tensor.shape)]


@dataclass(frozen=True)
class _Samples:
    """The samples of a part along an axis.

    Attributes
    ----------
    start, step : Expr
        The place of the first sample, and the distance to the next one.
    count : Expr
        Their number, of the type of the coordinates.
    begin, end : Expr
        Numbers of samples between which all that are within the image are.
    """

    start: Expr
    step: Expr
    count: Expr
    begin: Expr
    end: Expr


class _Part:
    """Emits the computation of one element of the result."""

    def __init__(self, pool: RegionPool, tensors: Sequence[Any], place: Sequence[Expr]) -> None:
        self._pool, self._place = pool, place
        self._data, self._regions, self._images = tensors
        self._dtype = str(self._data.dtype)
        self._sizes = [int(size) for size in self._data.shape[2:]]

    def emit(self) -> Expr:
        """Emit the loops, and return their result."""
        return self._largest() if self._pool.kind == "max" else self._of_samples()

    def _of_samples(self) -> Expr:
        averages = self._pool.kind == "average"
        rows, columns = self._samples(0), self._samples(1)
        total = self._kept(self._number(0.0 if averages else -math.inf))
        visited = self._kept(self._number(0.0))

        def sample(y: Expr, x: Expr) -> None:
            (above, below, down), (left, right, across) = self._around(0, y), self._around(1, x)
            top, near = self._number(1.0) - down, self._number(1.0) - across
            corners = [
                self._pixel(above, left) * (top * near),
                self._pixel(above, right) * (top * across),
                self._pixel(below, left) * (down * near),
                self._pixel(below, right) * (down * across),
            ]
            T.buffer_store(visited.source, visited + self._number(1.0), [0])
            joined = total
            for corner in corners:
                joined = joined + corner if averages else T.max(joined, corner)
            T.buffer_store(total.source, joined, [0])

        self._within(0, rows, lambda y: self._within(1, columns, lambda x: sample(y, x)))
        count = self._kept(rows.count * columns.count)
        if averages:
            return total / T.max(count, self._number(1.0))
        # What is outside of the image is 0, and so is the largest of no samples.
        zero = self._number(0.0)
        largest = tirx.Select(visited < count, T.max(total, zero), total)
        return tirx.Select(visited > zero, largest, zero)

    def _samples(self, axis: int) -> _Samples:
        pool, part = self._pool, self._place[2 + axis]
        moved = self._number(0.5 if pool.half_pixel else 0.0)
        start = self._kept(self._end(axis, 0) - moved)
        length = self._kept(self._end(axis, 1) - moved - start)
        if not pool.half_pixel:
            length = self._kept(tirx.Select(length < 1, self._number(1.0), length))
        each = self._kept(length / self._number(float(pool.parts[axis])))
        count = self._number(float(pool.samples))
        if not pool.samples:
            count = self._kept(_limited(T.ceil(each), 0.0, _MANY))
        first = self._kept(start + T.Cast(self._dtype, part) * each)
        step = self._kept(each / T.max(count, self._number(1.0)))
        if pool.samples:
            return _Samples(first, step, count, T.int32(0), T.int32(pool.samples))
        # The steps are up to a pixel long, so that few samples are within the image.
        begin = _limited(T.floor((-1.0 - first) / step) - 1.0, 0.0, count)
        end = _limited(T.ceil((self._sizes[axis] - first) / step) + 1.0, 0.0, count)
        return _Samples(first, step, count, self._whole(begin), self._whole(end))

    def _within(self, axis: int, samples: _Samples, body: Callable[[Expr], None]) -> None:
        """Emit a loop over the places of samples that are within the image or at its border."""
        with T.serial(samples.begin, samples.end) as number:
            middle = T.Cast(self._dtype, number) + self._number(0.5)
            at = self._kept(samples.start + middle * samples.step)
            inside = tirx.And(at >= -1.0, at <= self._number(float(self._sizes[axis])))
            with T.If(inside), T.Then():
                body(at)

    def _around(self, axis: int, at: Expr) -> tuple[Expr, Expr, Expr]:
        """Return the pixels before and behind a place, and its distance from the first."""
        last = self._sizes[axis] - 1
        at = _limited(at, 0.0, self._number(float(last)))
        low = self._whole(at)
        return low, T.min(low + 1, T.int32(last)), self._kept(at - T.Cast(self._dtype, low))

    def _largest(self) -> Expr:
        (top, bottom), (left, right) = self._ends(0), self._ends(1)
        total = self._kept(self._number(-math.inf))
        with T.serial(top, bottom) as y, T.serial(left, right) as x:
            T.buffer_store(total.source, T.max(total, self._pixel(y, x)), [0])
        empty = tirx.Or(bottom <= top, right <= left)
        return tirx.Select(empty, self._number(0.0), total)

    def _ends(self, axis: int) -> tuple[Expr, Expr]:
        """Return the first pixel of a part along an axis, and the first one behind it."""
        start, end = (self._rounded(self._kept(self._end(axis, side))) for side in (0, 1))
        length = self._kept(end - start + self._number(1.0))
        length = self._kept(tirx.Select(length > 1, length, self._number(1.0)))
        each = self._kept(length / self._number(float(self._pool.parts[axis])))
        part, size = T.Cast(self._dtype, self._place[2 + axis]), float(self._sizes[axis])
        first = T.floor(part * each) + start
        behind = T.ceil((part + self._number(1.0)) * each) + start
        return tuple(self._whole(_limited(place, 0.0, size)) for place in (first, behind))

    def _rounded(self, x: Expr) -> Expr:
        """Round to the nearest whole number, halves away from 0."""
        whole = self._kept(T.trunc(x))
        away = tirx.Select(x < whole, self._number(-1.0), self._number(1.0))
        half = tirx.abs(x - whole) >= self._number(0.5)
        return self._kept(tirx.Select(half, whole + away, whole))

    def _end(self, axis: int, side: int) -> Expr:
        """Return where the region begins, or ends, along an axis, in pixels."""
        coordinate = self._regions[self._place[0], 2 * side + 1 - axis]
        return coordinate * self._number(self._pool.scale)

    def _pixel(self, y: Expr, x: Expr) -> Expr:
        return self._data[self._images[self._place[0]], self._place[1], y, x]

    def _number(self, value: float) -> Expr:
        return tirx.const(value, self._dtype)

    def _whole(self, value: Expr) -> Expr:
        return self._kept(T.Cast("int32", value))

    def _kept(self, value: Expr) -> Expr:
        """Compute a value once; TVM would inline its expression wherever it is read."""
        buffer = on_stack([1], str(value.ty.dtype))
        T.buffer_store(buffer, value, [0])
        return buffer[0]


def _limited(x: Expr, low: Any, high: Any) -> Expr:
    """Return a number between two others; the first of them for NaN, so that it is an integer."""
    low, high = (tirx.const(n, x.ty.dtype) if isinstance(n, float) else n for n in (low, high))
    return tirx.Select(x > low, tirx.Select(x < high, x, high), low)
