# SPDX-License-Identifier: Apache-2.0
"""Splits of feature maps, each part by itself."""

from __future__ import annotations

from itertools import accumulate

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..relax_ir.expressions import is_op, is_static


def slice_channels(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Replace the parts of feature maps that are split along the channels by slices.

    An operator of several results computes them all in one stage, in one layout. Of slices, each
    has the layout that its readers want, and stands where it is needed.
    """
    return _Slicer(mod).visit_expr(func)


@mutator
class _Slicer(PyExprMutator):
    def visit_tuple_getitem_(self, item: relax.TupleGetItem) -> relax.Expr:
        item = super().visit_tuple_getitem_(item)
        if not isinstance(item.tuple_value, relax.Var):
            return item  # a tuple that is written where it is read
        split = self.lookup_binding(item.tuple_value)
        if not is_op(split, "split") or not isinstance(split.ty, relax.TupleType):
            return item
        data, axis = split.args[0], int(split.attrs.axis)
        if not is_static(data) or len(data.ty.shape) != 4 or axis % 4 != 1:
            return item
        sizes = [int(part.shape.values[1]) for part in split.ty.fields]
        bounds = list(accumulate(sizes, initial=0))
        begin, end = bounds[item.index], bounds[item.index + 1]
        return relax.op.strided_slice(data, axes=[1], begin=[begin], end=[end])
