# SPDX-License-Identifier: Apache-2.0
"""Convolutions, poolings and resizing, of images in any layout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..meaning import GONE, Meaning, MeaningRule, Operation, Role, Roles, gone
from ..ranges import Range, kept_finite


def _finite(ranges: Sequence[Range]) -> Range:
    return kept_finite(*ranges)


def _image(data: str, result: str, kept: str) -> Roles:
    """Return the roles of an image's axes, of which those with the letters ``kept`` stay."""
    return [Role(result.index(x)) if x in kept and x in result else GONE for x in data]


def _convolution(operation: Operation) -> list[Meaning]:
    attrs = operation.attrs
    layout, weights = str(attrs.data_layout), str(attrs.kernel_layout)
    result = str(attrs.out_layout) or layout
    shape = operation.operands[1].shape
    spatial = [letter for letter in layout if letter not in "NC"]
    sizes = {x: shape[weights.index(x)] for x in weights if x in spatial}
    single = _untouched(spatial, [sizes.get(x, 0) for x in spatial], attrs.strides, attrs.padding)
    return [Meaning([_image(layout, result, "N" + single), gone(operation.operands[1])], _finite)]


def _untouched(
    letters: Sequence[str], window: Iterable[int], strides: Iterable[int], padding: Iterable[int]
) -> str:
    """Return the axes whose windows are one element each."""
    sizes, steps, widths = ([int(n) for n in its] for its in (window, strides, padding))
    if any(widths) or len(sizes) != len(letters) or len(steps) != len(letters):
        return ""
    return "".join(x for x, n, s in zip(letters, sizes, steps, strict=True) if n == s == 1)


def _transposed(operation: Operation) -> list[Meaning]:
    layout = str(operation.attrs.data_layout)
    result = str(operation.attrs.out_layout) or layout
    return [Meaning([_image(layout, result, "N"), gone(operation.operands[1])], _finite)]


def _pool(operation: Operation) -> list[Meaning]:
    attrs = operation.attrs
    layout = str(attrs.layout)
    spatial = [letter for letter in layout if letter not in "NC"]
    single = _untouched(spatial, attrs.pool_size, attrs.strides, attrs.padding)
    result = str(attrs.out_layout) or layout
    return [Meaning([_image(layout, result, "NC" + single)], _finite)]


def _adaptive(operation: Operation) -> list[Meaning]:
    layout = str(operation.attrs.layout)
    result = str(operation.attrs.out_layout) or layout
    return [Meaning([_image(layout, result, "NC")], _finite)]


def _resize(operation: Operation) -> list[Meaning]:
    layout = str(operation.attrs.layout)
    return [Meaning([_image(layout, layout, "NC")], _finite)]


def _sample(operation: Operation) -> list[Meaning]:
    """Return the meaning of samples of an image at places of a grid, of any form."""
    layout = str(operation.attrs.layout)
    _, grid = operation.operands
    places = [Role(layout.index("N")), *gone(grid)[1:]]
    return [Meaning([_image(layout, layout, "NC"), places], _finite)]


def _grid(operation: Operation) -> list[Meaning]:
    return [Meaning([[Role(0), *gone(operation.data)[1:]]])]


def _shuffle(operation: Operation) -> list[Meaning]:
    leading = operation.rank - 3
    return [Meaning([[*map(Role, range(leading)), GONE, GONE, GONE]], lambda r: r[0])]


_DIMENSIONS = ("1d", "2d", "3d")

RULES: dict[str, MeaningRule] = {
    **{f"nn.conv{d}": _convolution for d in _DIMENSIONS},
    **{f"nn.conv{d}_transpose": _transposed for d in _DIMENSIONS},
    **{f"nn.{kind}_pool{d}": _pool for d in _DIMENSIONS for kind in ("max", "avg")},
    **{f"nn.adaptive_avg_pool{d}": _adaptive for d in _DIMENSIONS},
    "image.resize2d": _resize,
    "image.resize3d": _resize,
    "image.grid_sample": _sample,
    "image.affine_grid": _grid,
    "nn.pixel_shuffle": _shuffle,
}
