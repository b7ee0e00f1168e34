# SPDX-License-Identifier: Apache-2.0
"""Other sizes of the dimensions that a file of the catalogue leaves open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import onnx

from peer.models import inputs_of
from real.catalogue import RealModel

_FEW = 4  # up to which a size is a batch, or a number of images


def _open_dimensions(model: RealModel, file: onnx.ModelProto) -> Iterator[tuple[str, int, str]]:
    """Give the input, the axis and a name of each; those of one name have one size.

    Dimensions without a name have one size if they are as long as each other in the catalogue, and
    are batches, or are none.
    """
    for value in inputs_of(file):
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_value < 1:
                size = model.shapes[value.name][axis]
                yield value.name, axis, dim.dim_param or f"{'batch' if axis == 0 else ''}{size}"


def at_other_sizes(model: RealModel, file: onnx.ModelProto) -> list[RealModel]:
    """Return the model at the catalogue's shapes of inputs, and at smaller, larger and odd ones.

    A file that leaves nothing open has its own alone. Whole numbers below a size, which are places
    there, are below the other size.
    """
    opened = list(_open_dimensions(model, file))
    found = []
    for change in _CHANGES if opened else _CHANGES[:1]:
        shapes = {name: list(shape) for name, shape in model.shapes.items()}
        sizes: dict[int, int] = {}
        for value, axis, name in opened:
            first, place = next((v, a) for v, a, n in opened if n == name)
            usual = model.shapes[first][place]
            shapes[value][axis] = sizes[usual] = change(usual)
        limits = {n: (low, sizes.get(high, high)) for n, (low, high) in model.limits.items()}
        given = {name: tuple(shape) for name, shape in shapes.items()}
        found.append(replace(model, shapes=given, limits=limits))
    return found


_CHANGES: tuple[Callable[[int], int], ...] = (
    lambda size: size,
    lambda size: size + 1 if size < _FEW else size // 2,
    lambda size: size + 2 if size < _FEW else size * 3 // 2 + 1,
    lambda size: size if size < _FEW else size + 7,
)
