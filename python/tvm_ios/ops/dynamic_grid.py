# SPDX-License-Identifier: Apache-2.0
"""Numbers of 8 bits on a grid that their range decides while a network runs.

The range is extended to 0, which is on the grid. The formulas are those of ONNX's operator
``DynamicQuantizeLinear``, in float32, of numbers and of vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

Expr = Any

_LARGEST = 255.0


def grid_of(least: Expr, largest: Expr) -> tuple[Expr, Callable[[Expr], Expr]]:
    """Return the step of the grid of a range, and what computes of it the number that stands for 0.

    Parameters
    ----------
    least, largest : Expr
        The ends of the range: not above, and not below 0.
    """
    width = largest - least
    scale = tirx.Select(width > T.float32(0), width / T.float32(_LARGEST), T.float32(1))
    return scale, lambda scale: tirx.nearbyint(_limited((T.float32(0) - least) / scale))


def rounded(value: Expr, scale: Expr, zero: Expr) -> Expr:
    """Return the number on a grid, from 0 to 255, that is nearest to a value."""
    return _limited(tirx.nearbyint(value / scale) + zero)


def _limited(number: Expr) -> Expr:
    lanes = number.ty.dtype.lanes
    least, largest = (
        T.float32(end) if lanes == 1 else T.Broadcast(T.float32(end), lanes)
        for end in (0.0, _LARGEST)
    )
    return T.max(T.min(number, largest), least)
