# SPDX-License-Identifier: Apache-2.0
"""Convolutions over one axis, as convolutions of images of one row.

Kernels, epilogues and merges are for images, and compute neighbours of a row at the same time. What
follows such a convolution element by element stays an image, so that a chain of them is one. An
image of one column is turned: its elements lie in memory as those of a row.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..relax_ir.expressions import held_shape, is_op, known_shape

_UNARY = ("nn.gelu", "nn.relu", "nn.silu", "nn.leakyrelu", "sigmoid", "tanh", "erf", "exp")
_BINARY = ("add", "multiply", "subtract", "divide")
_ROWS = 2  # the axis of an image's rows


def widen_convolutions(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Rewrite ``conv1d``, and ``conv2d`` of one column, to ``conv2d`` of one row."""
    return _Widener(mod).visit_expr(func)


@mutator
class _Widener(PyExprMutator):
    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self._images: dict[relax.Var, relax.Expr] = {}

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        image = self._image(binding.value)
        if image is None:
            super().visit_var_binding_(binding)
            return
        row = self._images[binding.var] = self.builder_.emit(image, binding.var.name)
        shape = held_shape(binding.value)
        is_vector = len(shape) == _ROWS + 1
        back = relax.op.squeeze(row, [_ROWS]) if is_vector else relax.op.reshape(row, shape)
        super().visit_var_binding_(relax.VarBinding(binding.var, back))

    def _image(self, value: relax.Expr) -> relax.Expr | None:
        """Return the image that a value is a row of, if it becomes one."""
        if is_op(value, "nn.conv1d"):
            return self._convolution(value)
        if is_op(value, "nn.conv2d"):
            return self._column_convolution(value)
        if not isinstance(value, relax.Call) or not any(map(self._is_image, value.args)):
            return None
        if any(is_op(value, name) for name in _UNARY):
            return relax.Call(value.op, [self._images[value.args[0]]], value.attrs)
        if any(is_op(value, name) for name in _BINARY) and self._widen(value.args):
            return relax.Call(value.op, [self._widened(a) for a in value.args], value.attrs)
        return None

    def _is_image(self, operand: relax.Expr) -> bool:
        return isinstance(operand, relax.Var) and operand in self._images

    def _widen(self, operands: Sequence[relax.Expr]) -> bool:
        """Return whether all operands are numbers, images or what becomes one beside them.

        Of vectors that is one with an element for each channel, of images any of one column.
        """
        others = [operand for operand in operands if not _is_number(operand)]
        shapes = [known_shape(operand) for operand in others]
        if len({None if shape is None else len(shape) for shape in shapes}) > 1:
            return False
        pairs = zip(others, shapes, strict=True)
        return all(self._is_image(a) or (shape and shape[-1] == 1) for a, shape in pairs)

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
            self._widened(data),
            self._widened(weight),
            strides=(1, int(attributes.strides[0])),
            padding=padding,
            dilation=(1, int(attributes.dilation[0])),
            groups=int(attributes.groups),
            out_dtype=attributes.out_dtype,
        )

    def _widened(self, tensor: relax.Expr) -> relax.Expr:
        """Return a tensor as rows: a vector with an axis more, or a column turned."""
        if self._is_image(tensor):
            return self._images[tensor]
        new = self.visit_expr(tensor)
        if _is_number(tensor):
            return new
        shape = held_shape(tensor)
        if len(shape) == _ROWS + 1:
            return self.builder_.emit(relax.op.expand_dims(new, [_ROWS]))
        return self.builder_.emit(relax.op.reshape(new, (*shape[:_ROWS], 1, shape[_ROWS])))


def _is_number(operand: relax.Expr) -> bool:
    return known_shape(operand) in ((), (1,))
