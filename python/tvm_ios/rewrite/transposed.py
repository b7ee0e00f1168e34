# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions as convolutions whose channels become pixels.

By a stride ``s``, each pixel of the input stands for a square of ``s`` x ``s`` pixels of the
result. Every place in a square is a convolution with every ``s``-th tap. All of them together are
one of ``s^2`` times the channels, which are then moved to their places. TVM's own lowering tests at
each tap whether it meets a pixel, and takes 10 to 20 times as long.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..relax_ir.constants import constant_array
from ..relax_ir.expressions import held_shape, is_op, known_shape
from ..sizes.size import AnyShape


def convolve_transposed(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Rewrite ``conv1d_transpose`` and ``conv2d_transpose`` by constant weights."""
    return _Convolver(mod).visit_expr(func)


@mutator
class _Convolver(PyExprMutator):
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        axes = next((n for n, name in _NAMES.items() if is_op(call, name)), 0)
        weights = constant_array(call.args[1]) if axes else None
        if weights is None or known_shape(call) is None or not _is_supported(call, axes):
            return call
        return self._convolution(call, weights, axes)

    def _convolution(self, call: relax.Call, weights: np.ndarray, axes: int) -> relax.Expr:
        """Return the convolution; one over one axis is that of an image of one row."""
        strides = [1, *map(int, call.attrs.strides)][-2:]
        begin = [0, *map(int, call.attrs.padding[:axes])][-2:]
        data, result = call.args[0], held_shape(call)
        weights = _extended(weights, call, axes)
        if axes == 1:
            data = self.builder_.emit(relax.op.reshape(data, _as_row(held_shape(data))))
            weights = weights[:, :, None]
        image = self._image(data, weights, strides)
        whole, wanted = held_shape(image), result if axes > 1 else _as_row(result)
        end = [first + size for first, size in zip(begin, wanted[2:], strict=True)]
        if any(begin) or not all(a == b for a, b in zip(end, whole[2:], strict=True)):
            image = relax.op.strided_slice(image, [2, 3], begin, end, assume_inbound=True)
        return image if axes > 1 else relax.op.reshape(self.builder_.emit(image), result)

    def _image(self, data: relax.Expr, weights: np.ndarray, strides: list[int]) -> relax.Expr:
        """Return the whole result, from the first tap of the first pixel on."""
        (down, across), channels = strides, weights.shape[1]
        taps = _of_squares(weights, strides)
        edges = [size - 1 for size in taps.shape[2:]]
        squares = self.builder_.emit(
            relax.op.nn.conv2d(data, relax.const(taps), padding=(*edges, *edges))
        )
        batch, _, rows, columns = held_shape(squares)
        apart = relax.op.reshape(squares, (batch, channels, down, across, rows, columns))
        moved = self.builder_.emit(relax.op.permute_dims(apart, [0, 1, 4, 2, 5, 3]))
        whole = (batch, channels, rows * down, columns * across)
        return self.builder_.emit(relax.op.reshape(moved, whole))


_NAMES = {1: "nn.conv1d_transpose", 2: "nn.conv2d_transpose"}
_LAYOUTS = {1: ("NCW", "IOW", "NCW"), 2: ("NCHW", "IOHW", "NCHW")}


def _as_row(shape: AnyShape) -> AnyShape:
    return (*shape[:2], 1, *shape[2:])


def _is_supported(call: relax.Call, axes: int) -> bool:
    attrs = call.attrs
    layouts = (attrs.data_layout, attrs.kernel_layout, attrs.out_layout)
    if layouts != _LAYOUTS[axes] or int(attrs.groups) != 1 or 0 in held_shape(call):
        return False
    return all(int(d) == 1 for d in attrs.dilation)


def _extended(weights: np.ndarray, call: relax.Call, axes: int) -> np.ndarray:
    """Return weights with as many taps of zeros as what is added behind the last one needs."""
    kernel, behind = weights.shape[2:], call.attrs.padding[axes:]
    more = [
        (0, max(0, int(added) - int(cut)))
        for added, cut in zip(call.attrs.output_padding, behind, strict=True)
    ]
    assert len(kernel) == axes, "a tap for each axis"
    return np.pad(weights, ((0, 0), (0, 0), *more))


def _of_squares(weights: np.ndarray, strides: list[int]) -> np.ndarray:
    """Return the weights ``[K s^2, C, R', S']`` of the convolution, of ``[C, K, R, S]``."""
    (c, k, *kernel), (down, across) = weights.shape, strides
    taps = [-(-size // stride) for size, stride in zip(kernel, strides, strict=True)]
    missing = [
        (0, count * stride - size)
        for count, stride, size in zip(taps, strides, kernel, strict=True)
    ]
    padded = np.pad(weights, ((0, 0), (0, 0), *missing))
    split = padded.reshape(c, k, taps[0], down, taps[1], across)[:, :, ::-1, :, ::-1]
    ordered = split.transpose(1, 3, 5, 0, 2, 4)
    return np.ascontiguousarray(ordered).reshape(k * down * across, c, *taps)
