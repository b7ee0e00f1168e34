# SPDX-License-Identifier: Apache-2.0
"""Sums of products that are written by labels of axes, as matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..relax_ir.expressions import held_shape, is_op, known_shape
from ..sizes.size import AnySize, known_equal

_MOST = 2  # operands


def multiply_labels(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Rewrite ``einsum`` to permutations, reshapes and one product.

    Keras writes the projections of an attention so, and the attention itself. TVM computes each
    element by itself.
    """
    return _Multiplier(mod).visit_expr(func)


@dataclass(frozen=True)
class _Labelled:
    """A tensor with a label for each axis."""

    tensor: relax.Expr
    labels: str

    @property
    def sizes(self) -> dict[str, AnySize]:
        return dict(zip(self.labels, held_shape(self.tensor), strict=True))


@mutator
class _Multiplier(PyExprMutator):
    def visit_call_(self, op: relax.Call) -> relax.Expr:
        op = super().visit_call_(op)
        if not is_op(op, "einsum") or str(op.ty.dtype) not in ("float32", "float64"):
            return op
        tensors = op.args[0]
        if isinstance(tensors, relax.Var):
            tensors = self.lookup_binding(tensors)
        if not isinstance(tensors, relax.Tuple) or len(tensors.fields) > _MOST:
            return op
        labels, given, result = str(op.attrs.subscripts).partition("->")
        operands = _labelled(list(tensors.fields), labels.split(","))
        if not given:
            result = "".join(x for x in sorted(labels) if x != "," and labels.count(x) == 1)
        return op if operands is None else self._product(operands, result)

    def _product(self, operands: list[_Labelled], result: str) -> relax.Expr:
        """Return the product of one tensor or of two, with the axes of ``result``."""
        if len(operands) == 1:
            return self._ordered(self._summed(operands[0], result), result)
        left, right = operands
        left = self._summed(left, result + right.labels)
        right = self._summed(right, result + left.labels)
        both = set(left.labels) & set(right.labels)
        if both <= set(result):
            return relax.op.multiply(*(self._spread(x, result) for x in (left, right)))
        free = [x for x in result if x not in both]
        if free and free[0] in right.labels:
            left, right = right, left
        outer = [x for x in result if x in both]
        inner = [x for x in left.labels if x in both and x not in result]
        own, others = ([x for x in free if x in side.labels] for side in (left, right))
        rows = own if own and not outer else [own]  # a matrix takes rows of any axes
        first = self._merged(left, [*outer, *rows, inner])
        second = self._merged(right, [*outer, inner, others])
        product = self._emit(relax.op.matmul(first, second))
        sizes, order = left.sizes | right.sizes, "".join([*outer, *own, *others])
        whole = relax.op.reshape(product, [sizes[x] for x in order])
        return (
            whole if order == result else self._ordered(_Labelled(self._emit(whole), order), result)
        )

    def _merged(self, given: _Labelled, groups: Sequence[Sequence[str]]) -> relax.Expr:
        """Return a tensor with an axis for each group of labels."""
        order = self._ordered(given, "".join(x for group in groups for x in group))
        shape = [math.prod(given.sizes[x] for x in group) for group in groups]
        return self._emit(relax.op.reshape(order, shape))

    def _spread(self, given: _Labelled, result: str) -> relax.Expr:
        """Return a tensor with an axis of one element for each label that it does not have."""
        order = self._ordered(given, "".join(x for x in result if x in given.labels))
        return self._emit(relax.op.reshape(order, [given.sizes.get(x, 1) for x in result]))

    def _summed(self, given: _Labelled, needed: str) -> _Labelled:
        """Return a tensor without the axes that nothing else has."""
        axes = [axis for axis, label in enumerate(given.labels) if label not in needed]
        if not axes:
            return given
        kept = "".join(label for label in given.labels if label in needed)
        return _Labelled(self._emit(relax.op.sum(given.tensor, axes)), kept)

    def _ordered(self, given: _Labelled, labels: str) -> relax.Expr:
        if labels == given.labels:
            return given.tensor
        axes = [given.labels.index(label) for label in labels]
        return self._emit(relax.op.permute_dims(given.tensor, axes))

    def _emit(self, expr: relax.Expr) -> relax.Expr:
        return self.builder_.emit(expr)


def _labelled(tensors: Sequence[relax.Expr], labels: Sequence[str]) -> list[_Labelled] | None:
    """Return tensors with their labels; None for diagonals, broadcasts, and axes of any number."""
    sizes: dict[str, AnySize] = {}
    for tensor, own in zip(tensors, labels, strict=True):
        shape = known_shape(tensor)
        if shape is None or len(shape) != len(own) or len(set(own)) < len(own) or "." in own:
            return None
        for label, size in zip(own, shape, strict=True):
            if not known_equal(sizes.setdefault(label, size), size):
                return None
    return [_Labelled(tensor, own) for tensor, own in zip(tensors, labels, strict=True)]
