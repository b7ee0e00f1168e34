# SPDX-License-Identifier: Apache-2.0
"""Other sizes of the dimensions that a file of the catalogue leaves open."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import onnx

from peer.models import inputs_of
from real.catalogue import RealModel

Shapes = dict[str, tuple[int, ...]]

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


def other_shapes(model: RealModel, file: onnx.ModelProto) -> list[Shapes]:
    """Return the shapes of the inputs: the catalogue's, and smaller, larger and odd ones.

    A file that leaves nothing open has its own alone.
    """
    opened = list(_open_dimensions(model, file))
    found: list[Shapes] = []
    for change in _CHANGES if opened else _CHANGES[:1]:
        shapes = {name: list(shape) for name, shape in model.shapes.items()}
        for value, axis, name in opened:
            first, place = next((v, a) for v, a, n in opened if n == name)
            shapes[value][axis] = change(model.shapes[first][place])
        found.append({name: tuple(shape) for name, shape in shapes.items()})
    return found


_CHANGES: tuple[Callable[[int], int], ...] = (
    lambda size: size,
    lambda size: size + 1 if size < _FEW else size // 2,
    lambda size: size + 2 if size < _FEW else size * 3 // 2 + 1,
    lambda size: size if size < _FEW else size + 7,
)
