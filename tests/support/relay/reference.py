# SPDX-License-Identifier: Apache-2.0
"""Convolutions, poolings and resizing in NumPy, one element after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

Sizes = Sequence[int]


def conv(
    x: np.ndarray,
    w: np.ndarray,
    strides: Sizes,
    before: Sizes,
    after: Sizes,
    dilation: Sizes | None = None,
    groups: int = 1,
) -> np.ndarray:
    """A convolution of NC... by OI..., in double precision."""
    rank = x.ndim - 2
    dilation = dilation or [1] * rank
    x = np.pad(x.astype("float64"), [(0, 0), (0, 0), *zip(before, after, strict=True)])
    kernel = w.shape[2:]
    out = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, d, s in zip(x.shape[2:], kernel, dilation, strides, strict=True)
    ]
    per, rows = w.shape[1], w.shape[0] // groups
    result = np.zeros((x.shape[0], w.shape[0], *out))
    for at in np.ndindex(*kernel):
        window = [
            slice(i * d, i * d + (n - 1) * s + 1, s)
            for i, d, n, s in zip(at, dilation, out, strides, strict=True)
        ]
        part = x[(slice(None), slice(None), *window)]
        for g in range(groups):
            taken, filters = part[:, g * per : (g + 1) * per], w[(slice(None), slice(None), *at)]
            here = slice(g * rows, (g + 1) * rows)
            result[:, here] += np.einsum("ni...,oi->no...", taken, filters[here])
    return result.astype("float32")


def conv_transpose(
    x: np.ndarray,
    w: np.ndarray,
    strides: Sizes,
    before: Sizes,
    after: Sizes,
    extra: Sizes,
    groups: int = 1,
) -> np.ndarray:
    """A transposed convolution of NC... by IO...: each input adds its filter to the output."""
    kernel = w.shape[2:]
    full = [
        (n - 1) * s + k + e for n, s, k, e in zip(x.shape[2:], strides, kernel, extra, strict=True)
    ]
    per_in, per_out = x.shape[1] // groups, w.shape[1]
    result = np.zeros((x.shape[0], per_out * groups, *full))
    for at in np.ndindex(*kernel):
        window = [
            slice(i, i + (n - 1) * s + 1, s)
            for i, n, s in zip(at, x.shape[2:], strides, strict=True)
        ]
        for g in range(groups):
            taken = slice(g * per_in, (g + 1) * per_in)
            filters = w[(taken, slice(None), *at)]
            given = np.einsum("ni...,io->no...", x[:, taken].astype("float64"), filters)
            result[(slice(None), slice(g * per_out, (g + 1) * per_out), *window)] += given
    cut = [slice(b, n - a) for b, a, n in zip(before, after, full, strict=True)]
    return result[(slice(None), slice(None), *cut)].astype("float32")


def pool(
    x: np.ndarray,
    reduce: Callable[..., np.ndarray],
    kernel: Sizes,
    strides: Sizes,
    before: Sizes,
    after: Sizes,
    *,
    dilation: Sizes | None = None,
    ceil: bool = False,
    count_padding: bool = False,
) -> np.ndarray:
    """A pooling of NC...; windows take what they have of the image, and of the padding if so told.

    Relay has as many windows as begin within image and padding; beyond it ``ceil`` adds one.
    """
    rank = x.ndim - 2
    dilation = dilation or [1] * rank
    sizes = x.shape[2:]
    out = []
    for n, k, s, b, a, d in zip(sizes, kernel, strides, before, after, dilation, strict=True):
        room = n + b + a - (k - 1) * d - 1
        out.append((math.ceil(room / s) if ceil else room // s) + 1)
    result = np.zeros((*x.shape[:2], *out))
    for at in np.ndindex(*out):
        taken = []
        for i, n, k, s, b, a, d in zip(
            at, sizes, kernel, strides, before, after, dilation, strict=True
        ):
            all_places = [i * s - b + j * d for j in range(k)]
            low, high = (-b, n + a) if count_padding else (0, n)
            taken.append([p for p in all_places if low <= p < high])
        inside = [
            [x[(slice(None), slice(None), *place)]]
            if all(0 <= p < n for p, n in zip(place, sizes, strict=True))
            else [np.zeros(x.shape[:2])]
            for place in product(*taken)
        ]
        values = np.array([v[0] for v in inside])
        empty = np.finfo("float32").min if reduce is np.max else 0.0
        result[(slice(None), slice(None), *at)] = reduce(values, axis=0) if len(values) else empty
    return result.astype("float32")


def adaptive_pool(x: np.ndarray, reduce: Callable[..., np.ndarray], sizes: Sizes) -> np.ndarray:
    """Each output pools from where its part of the image begins to where it ends."""
    result = np.zeros((*x.shape[:2], *sizes), "float32")
    for at in np.ndindex(*sizes):
        window = [
            slice(i * n // m, -(-(i + 1) * n // m))
            for i, n, m in zip(at, x.shape[2:], sizes, strict=True)
        ]
        axes = tuple(range(2, x.ndim))
        part = x[(slice(None), slice(None), *window)]
        result[(slice(None), slice(None), *at)] = reduce(part, axis=axes)
    return result


def resize(
    x: np.ndarray,
    sizes: Sizes,
    place: Callable[[int, int, int], float],
    weights: Callable[[float], dict[int, float]],
) -> np.ndarray:
    """Resize the last axes of ``x``, one after the other.

    ``place(i, n, m)`` is where the output ``i`` of ``m`` lies among ``n`` inputs, ``weights`` tells
    how much of which inputs is taken there; what is outside is taken from the border.
    """
    first = x.ndim - len(sizes)
    for axis, m in enumerate(sizes, first):
        n = x.shape[axis]
        matrix = np.zeros((m, n))
        for i in range(m):
            for j, weight in weights(place(i, n, m)).items():
                matrix[i, min(max(j, 0), n - 1)] += weight
        x = np.moveaxis(np.tensordot(matrix, x.astype("float64"), (1, axis)), 0, axis)
    return x.astype("float32")


def half_pixel(i: int, n: int, m: int) -> float:
    return (i + 0.5) * n / m - 0.5


def align_corners(i: int, n: int, m: int) -> float:
    return i * (n - 1) / (m - 1)


def asymmetric(i: int, n: int, m: int) -> float:
    return i * n / m


def linear(at: float) -> dict[int, float]:
    low = math.floor(at)
    return {low: 1 - (at - low), low + 1: at - low}


def nearest(at: float) -> dict[int, float]:
    return {math.floor(at + 0.5): 1.0}


def below(at: float) -> dict[int, float]:
    return {math.floor(at + 1e-5): 1.0}


def cubic(at: float, a: float = -0.5) -> dict[int, float]:
    low = math.floor(at)

    def weight(t: float) -> float:
        t = abs(t)
        if t < 1:
            return (a + 2) * t**3 - (a + 3) * t**2 + 1
        return a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a if t < 2 else 0.0

    return {low + i: weight(at - low - i) for i in range(-1, 3)}
