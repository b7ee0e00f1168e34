# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms, as products with matrices along each axis."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm import relax

from ...emitter import shape_of
from ...onnx.operators.signal import dft_by_attribute
from ..node_emitter import AtenEmitter
from .table import complex_operator

_NONE, _BY_ROOT, _BY_COUNT = range(3)
"""How PyTorch scales a transform: not at all, by the root of the count, or by the count."""


@complex_operator("_fft_r2c.default")
def of_real(
    emit: AtenEmitter,
    data: relax.Expr,
    axes: Sequence[int],
    normalization: int,
    onesided: bool,
) -> relax.Expr:
    """Transform real numbers; of the last axis, which is first, half may be left out."""
    sizes = shape_of(data)
    *others, last = (emit.axis(axis, len(sizes)) for axis in axes)
    pairs = emit.reshape(data, [*sizes, 1])
    pairs = dft_by_attribute(emit, pairs, axis=last, onesided=int(onesided))
    pairs = _along(emit, pairs, others, forward=True)
    return _scaled(emit, pairs, [sizes[axis] for axis in (*others, last)], normalization)


@complex_operator("_fft_c2c.default")
def of_complex(
    emit: AtenEmitter, data: relax.Expr, axes: Sequence[int], normalization: int, forward: bool
) -> relax.Expr:
    sizes = shape_of(data)[:-1]
    places = [emit.axis(axis, len(sizes)) for axis in axes]
    pairs = _along(emit, data, places, forward)
    return _scaled(emit, pairs, [sizes[axis] for axis in places], normalization)


@complex_operator("_fft_c2r.default")
def to_real(
    emit: AtenEmitter, data: relax.Expr, axes: Sequence[int], normalization: int, size: int
) -> relax.Expr:
    """Transform back to real numbers, of whose last axis half is given."""
    *others, last = (emit.axis(axis, len(emit.shape)) for axis in axes)
    pairs = _along(emit, data, others, forward=False)
    length = relax.const(size, "int64")
    result = dft_by_attribute(emit, pairs, length, axis=last, inverse=1, onesided=1)
    result = emit.reshape(result, emit.shape)
    result = emit(relax.op.multiply(result, emit.scalar(size, result)))
    return _scaled(emit, result, [emit.shape[axis] for axis in (*others, last)], normalization)


def _along(emit: AtenEmitter, pairs: relax.Expr, axes: Sequence[int], forward: bool) -> relax.Expr:
    """Transform along axes without a factor."""
    for axis in axes:
        pairs = dft_by_attribute(emit, pairs, axis=axis, inverse=int(not forward))
        if not forward:  # ONNX's inverse is divided by the size
            pairs = emit(relax.op.multiply(pairs, emit.scalar(shape_of(pairs)[axis], pairs)))
    return pairs


def _scaled(
    emit: AtenEmitter, x: relax.Expr, sizes: Sequence[int], normalization: int
) -> relax.Expr:
    count = math.prod(sizes)
    divisor = {_NONE: 1.0, _BY_ROOT: math.sqrt(count), _BY_COUNT: count}[normalization]
    return x if divisor == 1 else emit(relax.op.multiply(x, emit.scalar(1 / divisor, x)))
