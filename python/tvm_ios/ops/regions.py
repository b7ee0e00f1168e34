# SPDX-License-Identifier: Apache-2.0
"""TIR functions that pool regions of images, which are divided into parts."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any

from tvm import relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from .region_parts import Place, RegionPool, kept, pool_of_text

Expr = Any

FUNCTION = "pool_regions"
"""What the names of TIR functions that pool regions begin with."""

_ATTRIBUTE = "tvm_ios.regions"  # of a TIR function: what it computes


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
    name = f"{FUNCTION}_{zlib.crc32(repr((pool, shape, count, dtype)).encode()):08x}"
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
        T.func_attr({"tirx.noalias": True, _ATTRIBUTE: pool.text})
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


def pool_of(function: tirx.PrimFunc) -> RegionPool | None:
    """Return what a TIR function computes of regions; None for any other function."""
    text = function.attrs.get(_ATTRIBUTE) if function.attrs else None
    return None if text is None else pool_of_text(str(text))


def _all_of(tensor: Any) -> Any:
    return tensor[tuple(slice(0, int(size)) for size in tensor.shape)]


class _Part:
    """Emits the computation of one element of the result."""

    def __init__(self, pool: RegionPool, tensors: Sequence[Any], place: Sequence[Expr]) -> None:
        self._pool, self._place = pool, place
        self._data, self._regions, self._images = tensors
        self._dtype = str(self._data.dtype)
        sizes = [int(size) for size in self._data.shape[2:]]
        self._part = Place(pool, sizes, place[2:], self._end)

    def emit(self) -> Expr:
        """Emit the loops, and return their result."""
        return self._largest() if self._pool.kind == "max" else self._of_samples()

    def _of_samples(self) -> Expr:
        averages = self._pool.kind == "average"
        rows, columns = self._part.samples(0), self._part.samples(1)
        total = kept(self._number(0.0 if averages else -math.inf))
        visited = kept(self._number(0.0))

        def sample(y: Expr, x: Expr) -> None:
            corners = [
                self._pixel(row, column) * weight
                for row, column, weight in self._part.corners(y, x)
            ]
            T.buffer_store(visited.source, visited + self._number(1.0), [0])
            joined = total
            for corner in corners:
                joined = joined + corner if averages else T.max(joined, corner)
            T.buffer_store(total.source, joined, [0])

        within = self._part.within
        within(0, rows, lambda y: within(1, columns, lambda x: sample(y, x)))
        count = kept(rows.count * columns.count)
        if averages:
            return total / T.max(count, self._number(1.0))
        # What is outside of the image is 0, and so is the largest of no samples.
        zero = self._number(0.0)
        largest = tirx.Select(visited < count, T.max(total, zero), total)
        return tirx.Select(visited > zero, largest, zero)

    def _largest(self) -> Expr:
        (top, bottom), (left, right) = self._part.pixels(0), self._part.pixels(1)
        total = kept(self._number(-math.inf))
        with T.serial(top, bottom) as y, T.serial(left, right) as x:
            T.buffer_store(total.source, T.max(total, self._pixel(y, x)), [0])
        empty = tirx.Or(bottom <= top, right <= left)
        return tirx.Select(empty, self._number(0.0), total)

    def _end(self, axis: int, side: int) -> Expr:
        return self._regions[self._place[0], 2 * side + 1 - axis]

    def _pixel(self, y: Expr, x: Expr) -> Expr:
        return self._data[self._images[self._place[0]], self._place[1], y, x]

    def _number(self, value: float) -> Expr:
        return tirx.const(value, self._dtype)
