# SPDX-License-Identifier: Apache-2.0
"""Convolutions over one axis, as convolutions of images of one row.

Kernels, epilogues and merges are for images. What follows such a convolution element by element
stays an image, so that a chain of them is one.
"""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..relax_ir.expressions import is_op, known_shape

_UNARY = ("nn.gelu", "nn.relu", "nn.silu", "nn.leakyrelu", "sigmoid", "tanh", "erf", "exp")
_BINARY = ("add", "multiply", "subtract", "divide")
_ROWS = 2  # the axis of an image's rows


def widen_convolutions(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Rewrite ``conv1d`` to ``conv2d`` with one row."""
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
        self._images[binding.var] = self.builder_.emit(image, binding.var.name)
        row = relax.op.squeeze(self._images[binding.var], [_ROWS])
        new = relax.VarBinding(binding.var, row)
        super().visit_var_binding_(new)

    def _image(self, value: relax.Expr) -> relax.Expr | None:
        """Return the image that a value is a row of, if it becomes one."""
        if is_op(value, "nn.conv1d"):
            return self._convolution(value)
        if not isinstance(value, relax.Call) or not any(map(self._is_image, value.args)):
            return None
        if any(is_op(value, name) for name in _UNARY):
            return relax.Call(value.op, [self._images[value.args[0]]], value.attrs)
        if any(is_op(value, name) for name in _BINARY) and all(map(self._widens, value.args)):
            return relax.Call(value.op, [self._widened(a) for a in value.args], value.attrs)
        return None

    def _is_image(self, operand: relax.Expr) -> bool:
        return isinstance(operand, relax.Var) and operand in self._images

    def _widens(self, operand: relax.Expr) -> bool:
        """Return whether an operand is an image, a number, or has an element for each channel."""
        shape = known_shape(operand)
        if self._is_image(operand) or shape in ((), (1,)):
            return True
        return shape is not None and len(shape) == 3 and shape[2] == 1

    def _convolution(self, call: relax.Call) -> relax.Expr | None:
        attributes, (data, weight) = call.attrs, call.args
        layouts = attributes.data_layout, attributes.kernel_layout, attributes.out_layout
        if layouts != ("NCW", "OIW", "NCW") or known_shape(call) is None:
            return None
        left, right = map(int, attributes.padding)
        return relax.op.nn.conv2d(
            self._widened(data),
            self._widened(weight),
            strides=(1, int(attributes.strides[0])),
            padding=(0, left, 0, right),
            dilation=(1, int(attributes.dilation[0])),
            groups=int(attributes.groups),
            out_dtype=attributes.out_dtype,
        )

    def _widened(self, tensor: relax.Expr) -> relax.Expr:
        if self._is_image(tensor):
            return self._images[tensor]
        if known_shape(tensor) in ((), (1,)):
            return self.visit_expr(tensor)
        return self.builder_.emit(relax.op.expand_dims(self.visit_expr(tensor), [_ROWS]))
