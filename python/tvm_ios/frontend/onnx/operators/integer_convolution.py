# SPDX-License-Identifier: Apache-2.0
"""Convolutions of 8-bit integers, computed in float32, see :mod:`.integers`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import relax

from ....ops.epilogue import EXACT
from ....sizes.arithmetic import require_equal
from ...emitter import constant, constant_array, dtype_of, is_constant, shape_of
from ..node_emitter import NodeEmitter
from .convolution import convolved, window_at
from .integers import (
    LARGEST,
    check_bytes,
    counted,
    exact_ends,
    less_zero,
    steps,
    total_of,
    whole,
)
from .matmul import shifted
from .table import operator
from .window import WINDOW, Window

_PARTS = 8  # more than these are slower than sums of int32
_BLOCK = 64  # channels that parts are multiples of, so that no vector is divided


@operator("ConvInteger", shared=WINDOW)
def conv_integer(
    emit: NodeEmitter,
    data: relax.Expr,
    weight: relax.Expr,
    x_zero_point: relax.Expr | None = None,
    w_zero_point: relax.Expr | None = None,
    *,
    group: int = 1,
    **window: Any,
) -> relax.Expr:
    """Convolve 8-bit integers, less their zero points, with sums of 32 bits."""
    check_bytes(emit, data, weight)
    channels, each = shape_of(data)[1], shape_of(weight)[1]
    if not require_equal(channels, each * group):
        raise emit.error(f"multiplies {channels} channels by weights of {each * group}.")
    moved = window_at(emit, data, weight, window)
    right = less_zero(emit, weight, w_zero_point, 0)
    ends = _ends(right)
    if not ends or len(ends) > (_PARTS if group == 1 else 1):
        wide = (shifted(emit, data, x_zero_point, 1), shifted(emit, weight, w_zero_point, 0))
        return convolved(emit, *wide, moved, group)
    convolution = _Convolution(emit, data, x_zero_point, moved, group)
    if len(ends) == 1:
        return convolution.of(right)
    parts = [
        convolution.of(emit.slice(right, 1, begin, end), (begin, end))
        for begin, end in zip([0, *ends], ends, strict=False)
    ]
    return total_of(emit, parts)


def _ends(right: relax.Expr) -> list[int]:
    """Return where to end the parts of the channels for sums to be exact; none if they are not."""
    outputs, channels, *kernel = shape_of(right)
    known, taps = constant_array(right), math.prod(kernel)
    magnitudes = np.full((channels, 1), float(LARGEST * taps))
    if known is not None:
        magnitudes = np.abs(known.astype("float64")).reshape(outputs, channels, taps).sum(2).T
    if LARGEST * magnitudes.max() > EXACT:
        return []
    blocks = np.add.reduceat(magnitudes, np.arange(0, channels, _BLOCK), axis=0)
    if LARGEST * blocks.max() > EXACT:
        return exact_ends(magnitudes)
    return [min(_BLOCK * end, channels) for end in exact_ends(blocks)]


class _Convolution:
    """Emits convolutions of the channels of 8-bit integers.

    A zero point that is computed while the model runs is multiplied by the sums of constant
    weights, so that the integers stay what fits into bytes.
    """

    def __init__(
        self,
        emit: NodeEmitter,
        data: relax.Expr,
        zero_point: relax.Expr | None,
        window: Window,
        group: int,
    ) -> None:
        self._emit, self._window, self._group = emit, window, group
        self._sizes = shape_of(data)[2:]
        self._data, self._zero_point = data, zero_point
        self._computed = zero_point is not None and not is_constant(zero_point)
        if self._computed and shape_of(zero_point) not in ((), (1,)):
            raise emit.error(f"has {list(shape_of(zero_point))} zero points of its data.")

    def of(self, right: relax.Expr, channels: tuple[int, int] | None = None) -> relax.Expr:
        """Return the sums of products with some channels, or all, as int32."""
        emit, data = self._emit, self._data
        if channels is not None:
            data = emit.slice(data, 1, *channels)
        known = constant_array(right)
        if not self._computed or known is None:
            left = less_zero(emit, data, self._zero_point, 1)
            return counted(emit, convolved(emit, left, right, self._window, self._group))
        zero = emit.cast(emit.reshape(self._zero_point, []), "float32")
        # Before the convolution, which subtracts it at once.
        added = emit(relax.op.multiply(constant(self._sums(known)), zero))
        left = steps(emit, data, emit.full([], 0, dtype_of(data)))
        product = whole(emit, convolved(emit, left, right, self._window, self._group))
        return counted(emit, emit(relax.op.subtract(product, added)))

    def _sums(self, weights: np.ndarray) -> np.ndarray:
        """Return the sums of the weights that lie within the data, ``[1, outputs, *places]``."""
        window, total = self._window, weights.sum(1, dtype="float64")
        if not any(window.padding):
            total = total.reshape(len(total), -1).sum(1).reshape(-1, *(1 for _ in self._sizes))
            return total[None].astype("float32")
        counts = window.counts(self._sizes)
        for axis, (count, size) in enumerate(zip(counts, self._sizes, strict=True)):
            first = np.arange(count)[:, None] * window.strides[axis] - window.before[axis]
            places = first + np.arange(window.kernel[axis]) * window.dilations[axis]
            inside = ((places >= 0) & (places < size)).astype("float64")
            total = np.tensordot(total, inside, ([1], [1]))
        return total[None].astype("float32")
