# SPDX-License-Identifier: Apache-2.0
"""TIR functions that collect what the windows of a deformed convolution read.

Each element of a window is at a place of its own, which an offset moves, and is interpolated
between the four pixels around it. What lies outside of the image is zero.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tvm import relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from .region_parts import kept

Expr = Any

FUNCTION = "deformed_columns"
"""What the names of TIR functions that collect columns begin with."""

_ATTRIBUTE = "tvm_ios.deformed"  # of a TIR function: the columns that it collects


@dataclass(frozen=True)
class Columns:
    """What windows read of images ``[batch, height, width, channels]``.

    Attributes
    ----------
    batch, height, width, channels : int
        Of the images.
    places : (int, int)
        Of windows.
    kernel, strides, before, dilations : (int, int)
        The elements of a window, its steps, the padding before the image and the distance of
        elements.
    groups : int
        Of channels: each has its offsets.
    masked : bool
        Whether each element is multiplied by a number.
    dtype : str
        "float32" or "float64".
    """

    batch: int
    height: int
    width: int
    channels: int
    places: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    before: tuple[int, int]
    dilations: tuple[int, int]
    groups: int = 1
    masked: bool = False
    dtype: str = "float32"

    @property
    def elements(self) -> int:
        """The elements of a window."""
        return self.kernel[0] * self.kernel[1]

    @property
    def inputs(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the images, the offsets and the mask, if there is one.

        An element's offsets along the height and the width follow each other.
        """
        rows, image = self.groups * self.elements, (self.height, self.width, self.channels)
        mask = ((self.batch, rows, *self.places),) if self.masked else ()
        return ((self.batch, *image), (self.batch, 2 * rows, *self.places), *mask)

    @property
    def result(self) -> tuple[int, int, int, int]:
        """The shape of the columns: images, places, elements, channels."""
        return (self.batch, self.places[0] * self.places[1], self.elements, self.channels)

    @property
    def text(self) -> str:
        """A description, which :func:`columns_of` reads."""
        return json.dumps(asdict(self))


def deformed_columns(
    builder: relax.BlockBuilder, columns: Columns, inputs: Sequence[relax.Expr]
) -> relax.Var:
    """Emit the collection of columns, and return its result.

    Parameters
    ----------
    builder : relax.BlockBuilder
    columns : Columns
    inputs : sequence of relax.Expr
        Tensors of the type and of the shapes :attr:`Columns.inputs`.
    """
    name = f"{FUNCTION}_{zlib.crc32(columns.text.encode()):08x}"
    function = builder.add_func(columns_function(columns, name), name)
    result = relax.TensorType(columns.result, columns.dtype)
    return builder.emit(relax.call_tir(function, list(inputs), result))


def columns_function(columns: Columns, name: str) -> tirx.PrimFunc:
    """Build a schedulable function: one block for each element of the result."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(name)
        T.func_attr({"tirx.noalias": True, _ATTRIBUTE: columns.text})
        tensors = [
            T.arg(f"p{i}", T.buffer(shape, columns.dtype)) for i, shape in enumerate(columns.inputs)
        ]
        result = T.arg("columns", T.buffer(columns.result, columns.dtype))
        with T.grid(*columns.result) as loops, T.sblock("element"):
            place = T.axis.remap("SSSS", loops)
            T.reads(*(tensor[tuple(slice(0, int(n)) for n in tensor.shape)] for tensor in tensors))
            T.writes(result[tuple(place)])
            T.buffer_store(result, _element(columns, tensors, place), place)
    return builder.get()


def columns_of(function: tirx.PrimFunc) -> Columns | None:
    """Return the columns that a TIR function collects; None for any other function."""
    text = function.attrs.get(_ATTRIBUTE) if function.attrs else None
    if text is None:
        return None
    given: dict[str, Any] = json.loads(str(text))
    given.update((name, tuple(v)) for name, v in given.items() if isinstance(v, list))
    return Columns(**given)


def _element(columns: Columns, tensors: Sequence[Any], at: Sequence[Expr]) -> Expr:
    data, offset, *mask = tensors
    image, place, element, channel = at
    row, column = place // columns.places[1], place % columns.places[1]
    number = channel // (columns.channels // columns.groups) * columns.elements + element
    moved = [offset[image, 2 * number + axis, row, column] for axis in range(2)]
    factor = mask[0][image, number, row, column] if mask else None
    index = (element // columns.kernel[1], element % columns.kernel[1])
    total = tirx.const(0, columns.dtype)
    for y, x, weight in corners(columns, (row, column), index, moved, factor, kept):
        total = total + data[image, y, x, channel] * weight
    return total


def corners(
    columns: Columns,
    place: Sequence[Expr],
    element: Sequence[Expr],
    moved: Sequence[Expr],
    factor: Expr | None,
    keep: Callable[[Expr], Expr],
) -> list[tuple[Expr, Expr, Expr]]:
    """Return the rows and columns of four pixels, and their weights.

    Parameters
    ----------
    columns : Columns
    place, element : (Expr, Expr)
        The place of a window and of an element in it. All that is given for an axis may be
        vectors.
    moved : (Expr, Expr)
        The element's offsets.
    factor : Expr or None
        What is multiplied with the weights.
    keep : callable
        Computes a value once.
    """
    rows, across = (
        _neighbours(columns, axis, place[axis], element[axis], moved[axis], keep)
        for axis in range(2)
    )
    if factor is not None:
        rows = [(at, keep(weight * factor)) for at, weight in rows]
    return [(y, x, keep(down * right)) for y, down in rows for x, right in across]


def _neighbours(
    columns: Columns,
    axis: int,
    place: Expr,
    element: Expr,
    moved: Expr,
    keep: Callable[[Expr], Expr],
) -> list[tuple[Expr, Expr]]:
    """Return the two pixels around a place along an axis, and their weights, 0 outside."""
    size, dtype = (columns.height, columns.width)[axis], moved.ty.dtype
    lanes = int(dtype.lanes)

    def like(number: float, kind: str) -> Expr:
        value = tirx.const(number, kind)
        return value if lanes == 1 else T.Broadcast(value, lanes)

    def cast(value: Expr, kind: str) -> Expr:
        return T.Cast(kind if lanes == 1 else f"{kind}x{lanes}", value)

    begin = place * columns.strides[axis] + element * columns.dilations[axis]
    if int(begin.ty.dtype.lanes) != lanes:
        begin = T.Broadcast(begin, lanes)
    begin = cast(begin - like(columns.before[axis], "int32"), columns.dtype)
    at = keep(begin + moved)
    # Farther away, both are outside; a place at infinity has no fractional part.
    low, high = like(-2.0, columns.dtype), like(size + 1.0, columns.dtype)
    inside = keep(tirx.Select(at > low, tirx.Select(at < high, at, high), low))
    floor = keep(T.floor(inside))
    rest = keep(tirx.Select(tirx.isnan(at), at, inside - floor))
    first, found = keep(cast(floor, "int32")), []
    for step, weight in ((0, like(1.0, columns.dtype) - rest), (1, rest)):
        pixel = first + like(step, "int32")
        nearest = keep(T.max(T.min(pixel, like(size - 1, "int32")), like(0, "int32")))
        beyond = tirx.And(tirx.Not(tirx.isnan(at)), nearest != pixel)
        found.append((nearest, keep(tirx.Select(beyond, like(0.0, columns.dtype), weight))))
    return found
