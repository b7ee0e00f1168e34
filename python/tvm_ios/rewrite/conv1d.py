# SPDX-License-Identifier: Apache-2.0
"""Convolutions over one axis, as convolutions of images of one row.

Kernels, epilogues and merges are for images, and compute neighbours of a row at the same time. An
image of one column is turned: its elements lie in memory as those of a row.
"""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.relax.expr_functor import mutator

from ..relax_ir.expressions import is_op, known_shape
from .widener import Widener


def widen_convolutions(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Rewrite ``conv1d``, and ``conv2d`` of one column, to ``conv2d`` of one row."""
    return _Convolutions(mod).visit_expr(func)


@mutator
class _Convolutions(Widener):
    def image_of(self, value: relax.Expr) -> relax.Expr | None:
        if is_op(value, "nn.conv1d"):
            return self._convolution(value)
        if is_op(value, "nn.conv2d"):
            return self._column_convolution(value)
        return super().image_of(value)

    def _convolution(self, call: relax.Call) -> relax.Expr | None:
        attributes = call.attrs
        layouts = attributes.data_layout, attributes.kernel_layout, attributes.out_layout
        if layouts != ("NCW", "OIW", "NCW") or known_shape(call) is None:
            return None
        left, right = map(int, attributes.padding)
        return self._row_convolution(call, (0, left, 0, right))

    def _column_convolution(self, call: relax.Call) -> relax.Expr | None:
        attributes, (data, weight) = call.attrs, call.args
        layouts = attributes.data_layout, attributes.kernel_layout, attributes.out_layout
        shape, kernel = known_shape(data), known_shape(weight)
        if layouts != ("NCHW", "OIHW", "NCHW") or not shape or not kernel or kernel[2] == 1:
            return None
        top, left, bottom, right = map(int, attributes.padding)
        if (shape[3], kernel[3], left, right) != (1, 1, 0, 0):
            return None
        return self._row_convolution(call, (0, top, 0, bottom))

    def _row_convolution(self, call: relax.Call, padding: tuple[int, ...]) -> relax.Expr:
        """Convolve rows, with the stride and the dilation of the first axis that there was."""
        attributes, (data, weight) = call.attrs, call.args
        return relax.op.nn.conv2d(
            self.widened(data),
            self.widened(weight),
            strides=(1, int(attributes.strides[0])),
            padding=padding,
            dilation=(1, int(attributes.dilation[0])),
            groups=int(attributes.groups),
            out_dtype=attributes.out_dtype,
        )
