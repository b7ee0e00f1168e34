# SPDX-License-Identifier: Apache-2.0
"""Where the parts of regions lie in images, and what of an image they consist of."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from tvm import tirx
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

    @property
    def text(self) -> str:
        """A description, which :func:`pool_of_text` reads."""
        return json.dumps(asdict(self))


def pool_of_text(text: str) -> RegionPool:
    """Return the pool of a :attr:`RegionPool.text`."""
    given = json.loads(text)
    return RegionPool(**{**given, "parts": tuple(given["parts"])})


@dataclass(frozen=True)
class Samples:
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


class Place:
    """Emits where a part of a region lies.

    Parameters
    ----------
    pool : RegionPool
    sizes : (int, int)
        Of an image.
    part : (Expr, Expr)
        The numbers of the part along the axes.
    end : callable
        ``end(axis, side)`` returns where the region begins (0), or ends (1), along an axis.
    """

    def __init__(
        self,
        pool: RegionPool,
        sizes: Sequence[int],
        part: Sequence[Expr],
        end: Callable[[int, int], Expr],
    ) -> None:
        self._pool, self._sizes, self._part, self._coordinate = pool, sizes, part, end
        self._dtype = str(end(0, 0).ty.dtype)

    def samples(self, axis: int) -> Samples:
        """Return the samples along an axis."""
        pool, part = self._pool, self._part[axis]
        moved = self._number(0.5 if pool.half_pixel else 0.0)
        start = kept(self._end(axis, 0) - moved)
        length = kept(self._end(axis, 1) - moved - start)
        if not pool.half_pixel:
            length = kept(tirx.Select(length < 1, self._number(1.0), length))
        each = kept(length / self._number(float(pool.parts[axis])))
        count = self._number(float(pool.samples))
        if not pool.samples:
            count = kept(limited(T.ceil(each), 0.0, _MANY))
        first = kept(start + T.Cast(self._dtype, part) * each)
        step = kept(each / T.max(count, self._number(1.0)))
        if pool.samples:
            return Samples(first, step, count, T.int32(0), T.int32(pool.samples))
        # The steps are up to a pixel long, so that few samples are within the image.
        begin = limited(T.floor((-1.0 - first) / step) - 1.0, 0.0, count)
        end = limited(T.ceil((self._sizes[axis] - first) / step) + 1.0, 0.0, count)
        return Samples(first, step, count, self._whole(begin), self._whole(end))

    def within(self, axis: int, samples: Samples, body: Callable[[Expr], None]) -> None:
        """Emit a loop over the places of samples that are within the image or at its border."""
        with T.serial(samples.begin, samples.end) as number:
            middle = T.Cast(self._dtype, number) + self._number(0.5)
            at = kept(samples.start + middle * samples.step)
            inside = tirx.And(at >= -1.0, at <= self._number(float(self._sizes[axis])))
            with T.If(inside), T.Then():
                body(at)

    def corners(self, y: Expr, x: Expr) -> list[tuple[Expr, Expr, Expr]]:
        """Return the rows and columns of the pixels around a place, and their weights."""
        (above, below, down), (left, right, across) = self._around(0, y), self._around(1, x)
        top, near = self._number(1.0) - down, self._number(1.0) - across
        return [
            (above, left, top * near),
            (above, right, top * across),
            (below, left, down * near),
            (below, right, down * across),
        ]

    def _around(self, axis: int, at: Expr) -> tuple[Expr, Expr, Expr]:
        """Return the pixels before and behind a place, and its distance from the first."""
        last = self._sizes[axis] - 1
        at = limited(at, 0.0, self._number(float(last)))
        low = self._whole(at)
        return low, T.min(low + 1, T.int32(last)), kept(at - T.Cast(self._dtype, low))

    def pixels(self, axis: int) -> tuple[Expr, Expr]:
        """Return the first pixel of a part along an axis, and the first one behind it."""
        start, end = (self._rounded(kept(self._end(axis, side))) for side in (0, 1))
        length = kept(end - start + self._number(1.0))
        length = kept(tirx.Select(length > 1, length, self._number(1.0)))
        each = kept(length / self._number(float(self._pool.parts[axis])))
        part, size = T.Cast(self._dtype, self._part[axis]), float(self._sizes[axis])
        first = T.floor(part * each) + start
        behind = T.ceil((part + self._number(1.0)) * each) + start
        return tuple(self._whole(limited(place, 0.0, size)) for place in (first, behind))

    def _rounded(self, x: Expr) -> Expr:
        """Round to the nearest whole number, halves away from 0."""
        whole = kept(T.trunc(x))
        away = tirx.Select(x < whole, self._number(-1.0), self._number(1.0))
        half = tirx.abs(x - whole) >= self._number(0.5)
        return kept(tirx.Select(half, whole + away, whole))

    def _end(self, axis: int, side: int) -> Expr:
        """Return where the region begins, or ends, along an axis, in pixels."""
        return self._coordinate(axis, side) * self._number(self._pool.scale)

    def _number(self, value: float) -> Expr:
        return tirx.const(value, self._dtype)

    def _whole(self, value: Expr) -> Expr:
        return kept(T.Cast("int32", value))


def kept(value: Expr) -> Expr:
    """Compute a value once; TVM would inline its expression wherever it is read."""
    buffer = on_stack([1], str(value.ty.dtype))
    T.buffer_store(buffer, value, [0])
    return buffer[0]


def limited(x: Expr, low: Any, high: Any) -> Expr:
    """Return a number between two others; the first of them for NaN, so that it is an integer."""
    low, high = (tirx.const(n, x.ty.dtype) if isinstance(n, float) else n for n in (low, high))
    return tirx.Select(x > low, tirx.Select(x < high, x, high), low)
