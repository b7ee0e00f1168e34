# SPDX-License-Identifier: Apache-2.0
"""Winograd's minimal filtering: its matrices, and its transforms of vectors.

``F(m, r)`` computes ``m`` outputs of a filter of ``r`` taps from ``n = m + r - 1`` inputs with
``n`` multiplications: evaluate the inputs and the taps as polynomials at ``n`` points, multiply at
each point, interpolate. In two dimensions rows and columns are transformed one after the other, and
the multiplications of a tile are as many as its points (Lavin and Gray, "Fast Algorithms for
Convolutional Neural Networks", section 4). An axis of one tap stays as it is.

Windows of stride 2 read the even inputs through the even taps and the odd inputs through the odd
taps. Each half is a filter of stride 1, and the outputs are the sums of both.

The points decide the rounding error. They are infinity and pairs of ``p`` and ``-p``, and 0 if
their number is even; a pair shares its even and its odd part. The pairs were chosen among those
with few bits, so that the data's transforms contain no rounded constant, and have the least error
of these.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
from tvm.tirx.script import builder as T

from .....ops.window import Window
from ...isa.emit import splat
from ..conv.shape import Conv2d

Expr = Any

ERRORS = {
    1: {
        (2, 3): 0.8,
        (4, 3): 1.35,
        (2, 4): 0.9,
        (4, 4): 1.6,
        (2, 5): 1.1,
        (4, 5): 2.1,
        (2, 7): 2.1,
        (4, 7): 4.6,
    },
    2: {(3, 3): 0.75},
}
"""The root mean square errors along an axis by stride and by ``(m, r)``, relative to those of the
direct sum.

They are those of normally distributed data and weights; with both axes transformed, the errors
multiply. ``test_winograd_model.py`` compares them with the kernels'.
"""

# By the number of points n.
_PAIRS = {
    4: (Fraction(1),),
    5: (Fraction(3, 8), Fraction(3, 2)),
    6: (Fraction(5, 8), Fraction(3, 2)),
    7: (Fraction(1, 4), Fraction(7, 8), Fraction(7, 4)),
    8: (Fraction(1, 2), Fraction(1), Fraction(2)),
    10: (Fraction(3, 8), Fraction(3, 4), Fraction(5, 4), Fraction(5, 2)),
}


def transforms(conv: Conv2d, outputs: int) -> tuple[Transform, Transform]:
    """Return the transforms along the rows' axis and along the columns' axis of a convolution.

    Parameters
    ----------
    conv : Conv2d
        The convolution.
    outputs : int
        Outputs of a tile along an axis of several taps.
    """
    down, across = (
        Transform(tile_outputs(axis, outputs), axis.kernel, axis.stride)
        for axis in (conv.rows, conv.columns)
    )
    return down, across


def tile_outputs(window: Window, outputs: int) -> int:
    """Return the outputs of a tile along an axis; 1 if its windows have one tap."""
    return outputs if window.kernel > 1 else 1


class Transform:
    """The three transforms along an axis of windows.

    Attributes
    ----------
    m, n : int
        Outputs, and inputs, of a tile along the axis. There are as many points as inputs.
    """

    def __init__(self, m: int, taps: int, stride: int) -> None:
        self.m, self._taps, self._stride = m, taps, stride
        self._filters = [_Filter(m, len(range(first, taps, stride))) for first in range(stride)]
        self.n = sum(part.n for part in self._filters)

    @property
    def filter(self) -> np.ndarray:
        """The matrix that transforms the taps to the points, ``[n, taps]``, in float64."""
        matrix, begin = np.zeros((self.n, self._taps)), 0
        for first, part in enumerate(self._filters):
            matrix[begin : begin + part.n, first :: self._stride] = part.matrix
            begin += part.n
        return matrix

    def data(self, x: Sequence[Expr], lanes: int) -> list[Expr]:
        """Evaluate ``n`` inputs at the points; every ``x`` is a variable."""
        return [
            value
            for first, part in enumerate(self._filters)
            for value in part.data(x[first :: self._stride], lanes)
        ]

    def outputs(self, x: Sequence[Expr], lanes: int) -> list[Expr]:
        """Compute ``m`` outputs from the products at the points; every ``x`` is a variable."""
        rest, parts = list(x), []
        for part in self._filters:
            parts.append(part.outputs(rest[: part.n], lanes))
            rest = rest[part.n :]
        return [reduce(operator.add, values) for values in zip(*parts, strict=True)]


class _Filter:
    """The three transforms of ``F(m, r)``; those of one tap change nothing.

    The factor ``prod (p - q)`` over all other points, which belongs to the polynomial of each
    finite point, is part of the filter's transform. That transform is computed at compile time, so
    that the data's transform is free of divisions.
    """

    def __init__(self, m: int, taps: int) -> None:
        self.m, self.n, self._taps = m, m + taps - 1, taps
        self._pairs = _PAIRS[self.n] if taps > 1 else ()
        self._zero = 1 - self.n % 2  # the number of points at 0

    @property
    def matrix(self) -> np.ndarray:
        """The transform of the taps, ``[n, taps]``."""
        if self._taps == 1:
            return np.ones((self.n, 1))
        points = [Fraction(0)] * self._zero + [s * p for p in self._pairs for s in (1, -1)]
        matrix = np.zeros((self.n, self._taps))
        for row, p in enumerate(points[: self.n - 1]):
            scale = Fraction(1)
            for q in points:
                scale *= p - q if p != q else 1
            matrix[row] = [float(p**tap / scale) for tap in range(self._taps)]
        matrix[-1, -1] = 1.0
        return matrix

    def data(self, x: Sequence[Expr], lanes: int) -> list[Expr]:
        """Evaluate the inputs at the points.

        The value at ``p`` is the inner product with the coefficients of the polynomial whose roots
        are all other finite points: ``z (z + p) prod (z^2 - q^2)`` over the other pairs ``q``,
        without the factor ``z`` if 0 is no point. At 0 it is ``prod (z^2 - q^2)``, at infinity ``z
        prod (z^2 - q^2)``, over all pairs.
        """
        if self._taps == 1:
            return list(x)
        every = _even_polynomial(self._pairs)
        result = [_sum(every, x[0::2], lanes)] * self._zero
        shifted = x[self._zero :]
        for p in self._pairs:
            others = _even_polynomial([q for q in self._pairs if q != p])
            low = T.Bind(_sum(others, shifted[0:-1:2], lanes))
            high = T.Bind(_sum(others, shifted[1::2], lanes))
            scale = _constant(p, lanes)
            result += [high + low * scale, high - low * scale]
        return [*result, _sum(every, shifted[0::2], lanes)]

    def outputs(self, x: Sequence[Expr], lanes: int) -> list[Expr]:
        """Interpolate the outputs.

        Output ``i`` is the sum of ``p^i x_p`` over the finite points. The last output also adds the
        product at infinity.
        """
        if self._taps == 1:
            return list(x)
        finite = x[self._zero : -1]
        pairs = list(zip(finite[0::2], finite[1::2], strict=True))
        parts = [[T.Bind(a + b) for a, b in pairs], [T.Bind(a - b) for a, b in pairs]]
        result = [_sum([p**i for p in self._pairs], parts[i % 2], lanes) for i in range(self.m)]
        if self._zero:
            result[0] = x[0] + result[0]
        result[-1] = result[-1] + x[-1]
        return result


def _even_polynomial(roots: Sequence[Fraction]) -> list[Fraction]:
    """Return the coefficients of ``prod (y - q^2)``, lowest power first."""
    coefficients = [Fraction(1)]
    for q in roots:
        shifted = [Fraction(0), *coefficients]
        lower = [q * q * c for c in coefficients] + [Fraction(0)]
        coefficients = [a - b for a, b in zip(shifted, lower, strict=True)]
    return coefficients


def _sum(coefficients: Sequence[Fraction], x: Sequence[Expr], lanes: int) -> Expr:
    """Return the inner product, as multiply-adds onto the terms that need no multiplication."""
    terms = sorted(zip(coefficients, x, strict=True), key=lambda term: term[0] != 1)
    total = None
    for coefficient, value in terms:
        term = value if coefficient == 1 else value * _constant(coefficient, lanes)
        total = term if total is None else total + term
    return total


def _constant(value: Fraction, lanes: int) -> Expr:
    return splat(T.float32(float(value)), lanes)
