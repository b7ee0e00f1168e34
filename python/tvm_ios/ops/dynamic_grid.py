# SPDX-License-Identifier: Apache-2.0
"""Numbers of 8 bits on a grid that their range decides while a network runs.

The range is extended to 0, which is on the grid. The formulas are those of ONNX's operator
``DynamicQuantizeLinear``, in float32, of numbers and of vectors.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

from tvm import relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from ..sizes.size import AnyShape, Size
from .tir_function import on_stack, tile_scope

Expr = Any

FUNCTION = "dynamic_grid"
"""What the names of TIR functions that find grids begin with."""

LARGEST = 255.0
"""The largest number on a grid, which begins with 0."""


def grid_of(least: Expr, largest: Expr) -> tuple[Expr, Callable[[Expr], Expr]]:
    """Return the step of the grid of a range, and what computes of it the number that stands for 0.

    Parameters
    ----------
    least, largest : Expr
        The ends of the range: not above, and not below 0.
    """
    width = largest - least
    scale = tirx.Select(width > T.float32(0), width / T.float32(LARGEST), T.float32(1))
    return scale, lambda scale: tirx.nearbyint(_limited((T.float32(0) - least) / scale))


def rounded(value: Expr, scale: Expr, zero: Expr) -> Expr:
    """Return the number on a grid, from 0 to 255, that is nearest to a value."""
    return _limited(tirx.nearbyint(value / scale) + zero)


def dynamic_grid(builder: relax.BlockBuilder, data: relax.Expr, shape: AnyShape) -> relax.Var:
    """Emit the search for the grid of a float32 tensor's range.

    Returns
    -------
    relax.Var
        A tuple of float32 without axes: the step of the grid, which is NaN if an element of the
        tensor is NaN or infinite, and which number stands for 0.
    """
    name = f"{FUNCTION}_{zlib.crc32(repr(shape).encode()):08x}"
    function = builder.add_func(grid_function(shape, name), name)
    number = relax.TensorType((), "float32")
    return builder.emit(relax.call_tir(function, [data], [number, number]))


def grid_function(shape: AnyShape, name: str) -> tirx.PrimFunc:
    """Build ``name(data, scale, zero)``, which finds the grid of a tensor's range on one thread."""
    sizes = [
        tirx.Var(f"n{axis}", "int64") if isinstance(size, Size) else size  # TVM finds these out
        for axis, size in enumerate(shape)
    ]
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(name)
        T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
        data = T.arg("data", T.buffer(sizes, "float32"))
        results = [T.arg(result, T.buffer((), "float32")) for result in ("scale", "zero")]
        with tile_scope():  # TVM requires a block
            found = on_stack([4], "float32")  # the range, a sum of 0 or NaN, and 0
            for place in range(4):
                T.buffer_store(found, T.float32(0), [place])
            _each(data, sizes, [], found)
            scale, zero = grid_of(found[0], found[1])
            T.buffer_store(results[0], scale + found[2], [])
            T.buffer_store(results[1], zero(results[0][()]), [])
    return builder.get()


def _each(data: Any, sizes: list[Any], place: list[Expr], found: Any) -> None:
    """Widen a range to the elements of a tensor, and add 0 to a sum for each, or NaN.

    TVM takes 0 for the product with a number that it knows to be 0, also of NaN.
    """
    if sizes:
        with T.serial(sizes[0]) as i:
            _each(data, sizes[1:], [*place, i], found)
        return
    value = data[tuple(place)]
    T.buffer_store(found, T.min(value, found[0]), [0])
    T.buffer_store(found, T.max(value, found[1]), [1])
    T.buffer_store(found, found[2] + value * found[3], [2])


def _limited(number: Expr) -> Expr:
    lanes = number.ty.dtype.lanes
    least, largest = (
        T.float32(end) if lanes == 1 else T.Broadcast(T.float32(end), lanes)
        for end in (0.0, LARGEST)
    )
    return T.max(T.min(number, largest), least)
