# SPDX-License-Identifier: Apache-2.0
"""Pooling over windows, over parts of an image, and over all of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvm import relax

from ...frontend.emitter import Emitter, shape_of
from ..ast import Attribute
from .layouts import is_plain, relayout, sizes_of
from .table import Converter, both_sides, integers, operator

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class _Axis:
    """A window along one axis."""

    kernel: int
    stride: int
    dilation: int
    before: int
    after: int

    def missing(self, size: int) -> int:
        """Return the further padding behind the image for the last window of ``ceil_mode``."""
        room = size + self.before + self.after - self._extent
        return -room % self.stride

    def outside(self, size: int) -> bool:
        """Return whether the last window of ``ceil_mode`` begins behind the image."""
        last = size + self.before + self.after + self.missing(size) - self._extent
        return last >= size + self.before

    @property
    def _extent(self) -> int:
        return (self.kernel - 1) * self.dilation + 1


def _window(
    emit: Emitter,
    spatial: str,
    pool_size: Attribute,
    strides: Attribute,
    padding: Attribute,
    dilation: Attribute,
) -> list[_Axis]:
    """Return the attributes of a window by axis."""
    rank = len(spatial)
    columns = [
        integers(emit, pool_size, rank, "pool_size"),
        integers(emit, strides, rank, "strides"),
        integers(emit, dilation, rank, "dilation"),
        *both_sides(emit, padding, rank),
    ]
    return [_Axis(*axis) for axis in zip(*columns, strict=True)]


@dataclass(frozen=True)
class _Pool:
    """A pooling with a window along each spatial axis."""

    kind: str
    spatial: str
    window: list[_Axis]
    ceil: bool
    count_padding: bool

    def apply(self, emit: Emitter, data: relax.Expr, layout: str, out_layout: str) -> relax.Expr:
        plain = layout if is_plain(layout) else f"NC{self.spatial}"
        data = relayout(emit, data, layout, plain)
        fitted = self._fitted(emit, sizes_of(emit, data, plain, self.spatial))
        result = emit(fitted._build(data, plain))
        return relayout(emit, result, plain, out_layout or layout)

    def _fitted(self, emit: Emitter, sizes: Sizes) -> _Pool:
        """Replace windows that begin behind the image by padding.

        Relax omits such windows.
        """
        pairs = list(zip(self.window, sizes, strict=True))
        if not self.ceil or not any(axis.outside(size) for axis, size in pairs):
            return self
        if self.count_padding:
            raise emit.error(
                "has a window that lies in the padding only, which it does not count; "
                "reduce the padding or turn off ceil_mode."
            )
        window = [replace(axis, after=axis.after + axis.missing(size)) for axis, size in pairs]
        return replace(self, window=window, ceil=False)

    def _build(self, data: relax.Expr, layout: str) -> relax.Expr:
        # Relax counts the padding in averages by default in one and three dimensions, not in two.
        counting = {"count_include_pad": self.count_padding} if self.kind == "avg" else {}
        build = getattr(relax.op.nn, f"{self.kind}_pool{len(self.spatial)}d")
        return build(
            data,
            [axis.kernel for axis in self.window],
            [axis.stride for axis in self.window],
            [*(axis.before for axis in self.window), *(axis.after for axis in self.window)],
            [axis.dilation for axis in self.window],
            self.ceil,
            layout=layout,
            **counting,
        )


def _max(spatial: str) -> Converter:
    ones = (1,) * len(spatial)

    def convert(
        emit: Emitter,
        data: relax.Expr,
        *,
        pool_size: Attribute,
        strides: Attribute = ones,
        dilation: Attribute = ones,
        padding: Attribute = (0,),
        layout: str = f"NC{spatial}",
        out_layout: str = "",
        ceil_mode: bool = False,
    ) -> relax.Expr:
        window = _window(emit, spatial, pool_size, strides, padding, dilation)
        pool = _Pool("max", spatial, window, bool(ceil_mode), False)
        return pool.apply(emit, data, layout, out_layout)

    return convert


def _average(spatial: str) -> Converter:
    ones = (1,) * len(spatial)

    def convert(
        emit: Emitter,
        data: relax.Expr,
        *,
        pool_size: Attribute,
        strides: Attribute = ones,
        dilation: Attribute = ones,
        padding: Attribute = (0,),
        layout: str = f"NC{spatial}",
        out_layout: str = "",
        ceil_mode: bool = False,
        count_include_pad: bool = False,
    ) -> relax.Expr:
        window = _window(emit, spatial, pool_size, strides, padding, dilation)
        pool = _Pool("avg", spatial, window, bool(ceil_mode), bool(count_include_pad))
        return pool.apply(emit, data, layout, out_layout)

    return convert


def _adaptive(kind: str, spatial: str) -> Converter:
    rank = len(spatial)

    def convert(
        emit: Emitter,
        data: relax.Expr,
        *,
        output_size: Attribute = (),
        layout: str = f"NC{spatial}",
        out_layout: str = "",
    ) -> relax.Expr:
        plain = f"NC{spatial}"
        data = relayout(emit, data, layout, plain)
        if output_size != ():
            sizes = integers(emit, output_size, rank, "output_size")
            data = _adapt(emit, data, kind, sizes)
        return relayout(emit, data, plain, out_layout or layout)

    return convert


def _adapt(emit: Emitter, data: relax.Expr, kind: str, sizes: Sizes) -> relax.Expr:
    """Pool equal parts by a window, and unequal parts one by one along each axis."""
    inputs, rank = shape_of(data)[2:], len(sizes)
    if kind == "avg" and sizes == (1, 1):
        return emit(relax.op.nn.adaptive_avg_pool2d(data, sizes))
    if not any(size % wanted for size, wanted in zip(inputs, sizes, strict=True)):
        window = tuple(size // wanted for size, wanted in zip(inputs, sizes, strict=True))
        return emit(getattr(relax.op.nn, f"{kind}_pool{rank}d")(data, window, window))
    reduce = relax.op.max if kind == "max" else relax.op.mean
    for axis, (size, wanted) in enumerate(zip(inputs, sizes, strict=True), 2):
        emit.expect(wanted)
        ends = [(i * size // wanted, -(-(i + 1) * size // wanted)) for i in range(wanted)]
        parts = [emit(reduce(emit.slice(data, axis, *part), axis, True)) for part in ends]
        data = emit(relax.op.concat(parts, axis)) if len(parts) > 1 else parts[0]
    return data


def _global(kind: str) -> Converter:
    adaptive = _adaptive(kind, "HW")

    def convert(
        emit: Emitter, data: relax.Expr, *, layout: str = "NCHW", out_layout: str = ""
    ) -> relax.Expr:
        return adaptive(emit, data, output_size=1, layout=layout, out_layout=out_layout)

    return convert


for _spatial in ("W", "HW", "DHW"):
    operator(f"nn.max_pool{len(_spatial)}d")(_max(_spatial))
    operator(f"nn.avg_pool{len(_spatial)}d")(_average(_spatial))
    for _kind in ("max", "avg"):
        operator(f"nn.adaptive_{_kind}_pool{len(_spatial)}d")(_adaptive(_kind, _spatial))
for _kind in ("max", "avg"):
    operator(f"nn.global_{_kind}_pool2d")(_global(_kind))
