# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions of images of open size, as convolutions whose channels become pixels.

By a stride ``s``, each pixel of the input stands for a square of ``s`` x ``s`` pixels of the
result. Every place in a square is a convolution with every ``s``-th tap. All of them together are
one of ``s^2`` times the channels, which are then moved to their places. TVM's own lowering divides
by the stride at each tap, which is slow where the sizes are not known.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..relax_ir.constants import constant_array
from ..relax_ir.expressions import held_shape, is_op, known_shape
from ..sizes.size import is_open


def convolve_transposed(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Rewrite ``conv2d_transpose`` by constant weights, of images of open size."""
    return _Convolver(mod).visit_expr(func)


@mutator
class _Convolver(PyExprMutator):
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        if not is_op(call, "nn.conv2d_transpose"):
            return call
        shape, weights = known_shape(call.args[0]), constant_array(call.args[1])
        if shape is None or weights is None or not is_open(shape) or not _is_supported(call):
            return call
        return self._convolution(call, weights)

    def _convolution(self, call: relax.Call, weights: np.ndarray) -> relax.Expr:
        down, across = strides = [int(s) for s in call.attrs.strides]
        channels, result = weights.shape[1], held_shape(call)
        taps = _of_squares(weights, strides)
        edges = [size - 1 for size in taps.shape[2:]]
        squares = self.builder_.emit(
            relax.op.nn.conv2d(call.args[0], relax.const(taps), padding=(*edges, *edges))
        )
        batch, _, rows, columns = held_shape(squares)
        apart = relax.op.reshape(squares, (batch, channels, down, across, rows, columns))
        moved = self.builder_.emit(relax.op.permute_dims(apart, [0, 1, 4, 2, 5, 3]))
        whole = (batch, channels, rows * down, columns * across)
        image = self.builder_.emit(relax.op.reshape(moved, whole))
        begin = [int(p) for p in call.attrs.padding[:2]]
        end = [first + size for first, size in zip(begin, result[2:], strict=True)]
        if all(a == b for a, b in zip(end, whole[2:], strict=True)) and not any(begin):
            return image
        return relax.op.strided_slice(image, [2, 3], begin, end)


def _is_supported(call: relax.Call) -> bool:
    attrs = call.attrs
    layouts = (attrs.data_layout, attrs.kernel_layout, attrs.out_layout)
    if layouts != ("NCHW", "IOHW", "NCHW") or int(attrs.groups) != 1:
        return False
    if any(int(d) != 1 for d in attrs.dilation) or known_shape(call) is None:
        return False
    kernel = held_shape(call.args[1])[2:]
    axes = zip(kernel, attrs.strides, attrs.padding[:2], attrs.output_padding, strict=True)
    # What is added behind the last tap must lie in a square.
    return all(k - int(p) + int(more) <= -(-k // int(s)) * int(s) for k, s, p, more in axes)


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
