# SPDX-License-Identifier: Apache-2.0
"""What operators over one axis become: operators on images of one row, in chains.

What follows such an image element by element stays an image, so that a chain of them is one.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator

from ..graph.recognise import ELEMENTWISE
from ..relax_ir.expressions import held_shape, is_float32, known_shape, op_name
from ..sizes.size import AnyShape

RANK = 3
"""The axes of a vector of each channel, which an image of one row has one more than."""

ROWS = 2
"""The axis of an image's rows."""


_OF_IMAGES = frozenset(
    f"nn.{name}" for name in ("conv2d", "conv2d_transpose", "max_pool2d", "avg_pool2d")
)
_MOVES = frozenset(("permute_dims", "reshape", "squeeze", "expand_dims"))


class Widener(PyExprMutator):
    """Rewrites what :meth:`image_of` has a form for; each subclass has forms of its own."""

    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self.images: dict[relax.Var, relax.Expr] = {}
        self._maps: set[relax.Var] = set()

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        variable, value = binding.var, binding.value
        if self._is_map(value):
            self._maps.add(variable)
        if is_expanded(value) and self.is_image(value.args[0]):
            binding = relax.VarBinding(variable, self.images[value.args[0]])
            super().visit_var_binding_(binding)
            return
        if is_squeezed(value) and value.args[0] in self._maps:
            self.images[variable] = self.visit_expr(value.args[0])
            super().visit_var_binding_(binding)
            return
        image = self.image_of(value)
        if image is None:
            super().visit_var_binding_(binding)
            return
        row, shape = self.builder_.emit(image, variable.name), held_shape(value)
        is_vector = len(shape) == RANK
        back = relax.op.squeeze(row, [ROWS]) if is_vector else relax.op.reshape(row, shape)
        if len(shape) >= RANK:
            self.images[variable] = row
        super().visit_var_binding_(relax.VarBinding(variable, back))

    def image_of(self, value: relax.Expr) -> relax.Expr | None:
        """Return the image that a value is a row of, if it becomes one."""
        if not isinstance(value, relax.Call) or op_name(value) not in ELEMENTWISE:
            return None
        tensors = [a for a in value.args if isinstance(a.ty, relax.TensorType)]
        if not any(map(self.is_image, tensors)) or not self._widen(tensors, known_shape(value)):
            return None
        arguments = [self.widened(a) if a in tensors else a for a in value.args]
        return relax.Call(value.op, arguments, value.attrs)

    def _is_map(self, value: relax.Expr) -> bool:
        """Return whether a value is an image that a convolution or a pooling computes, or of one.

        Other tensors of four axes gain nothing by being one.
        """
        if isinstance(value, relax.TupleGetItem):
            return value.tuple_value in self._maps
        name = op_name(value)
        if name in _OF_IMAGES or name in _MOVES:
            return name in _OF_IMAGES
        return isinstance(value, relax.Call) and any(a in self._maps for a in _variables(value))

    def is_image(self, operand: relax.Expr) -> bool:
        """Return whether an operand is a row of an image."""
        return isinstance(operand, relax.Var) and operand in self.images

    def _widen(self, operands: Sequence[relax.Expr], result: AnyShape | None) -> bool:
        """Return whether all operands are numbers, images or what becomes one beside them.

        Of vectors that is one with an element for each channel, of images any of one column.
        """
        others = [operand for operand in operands if not is_number(operand)]
        shapes = [known_shape(operand) for operand in others]
        if len({None if shape is None else len(shape) for shape in shapes}) > 1:
            return False
        pairs = zip(others, shapes, strict=True)
        return all(self.is_image(a) or (s and (s[-1] == 1 or s == result)) for a, s in pairs)

    def widened(self, tensor: relax.Expr) -> relax.Expr:
        """Return a tensor as rows: a vector with an axis more, or a column turned."""
        if self.is_image(tensor):
            return self.images[tensor]
        new = self.visit_expr(tensor)
        if is_number(tensor):
            return new
        shape = held_shape(tensor)
        if len(shape) == RANK:
            return self.builder_.emit(relax.op.expand_dims(new, [ROWS]))
        return self.builder_.emit(relax.op.reshape(new, (*shape[:ROWS], 1, shape[ROWS])))


def _variables(call: relax.Call) -> list[relax.Var]:
    """Return the variables that a call reads, also in tuples."""
    fields = (a.fields if isinstance(a, relax.Tuple) else [a] for a in call.args)
    return [a for own in fields for a in own if isinstance(a, relax.Var)]


def is_number(operand: relax.Expr) -> bool:
    """Return whether a tensor is a single number."""
    return known_shape(operand) in ((), (1,))


def is_squeezed(value: relax.Expr) -> bool:
    """Return whether ``value`` is an image of one row without the axis of its rows."""
    return _moves_rows(value, ("squeeze", "reshape"), added=False)


def is_expanded(value: relax.Expr) -> bool:
    """Return whether ``value`` is the image of one row that its operand stands for."""
    return _moves_rows(value, ("expand_dims", "reshape"), added=True)


def _moves_rows(value: relax.Expr, names: tuple[str, ...], *, added: bool) -> bool:
    if not isinstance(value, relax.Call) or op_name(value) not in names or not is_float32(value):
        return False
    shapes = known_shape(value.args[0]), known_shape(value)
    vector, image = shapes if added else shapes[::-1]
    if vector is None or image is None or len(vector) != RANK:
        return False
    return image == (*vector[:ROWS], 1, vector[ROWS])
