# SPDX-License-Identifier: Apache-2.0
"""Orders of numbers with NaN: it is the largest, as in NumPy and PyTorch.

Floating-point numbers are sorted by integers of the same order, and taken from the places that are
found.
"""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..ops.order_key import FUNCTION, key_type, order_key
from ..relax_ir.expressions import op_name, static_shape


def order_nan(function: str) -> tvm.transform.Pass:
    """Return a pass by which the sorts of a function take NaN for the largest number."""

    @tvm.transform.module_pass(opt_level=0, name="tvm_ios.order_nan")
    def apply(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
        orderer = _Orderer(mod)
        ordered = orderer.visit_expr(mod[function])
        orderer.builder_.update_func(mod.get_global_var(function), ordered)
        return orderer.builder_.get()

    return apply


@mutator
class _Orderer(PyExprMutator):
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        kind = op_name(call)
        if kind not in ("argsort", "sort", "topk"):
            return call
        data, attrs = call.args[0], call.attrs
        dtype, shape = str(data.ty.dtype), static_shape(data, "What is sorted")
        if not dtype.startswith(("float", "bfloat")) or not shape:
            return call
        wide = "float64" if dtype == "float64" else "float32"
        keys = self._keys(data if dtype == wide else self._emit(relax.op.astype(data, wide)), wide)
        if kind == "argsort":
            return relax.op.argsort(keys, attrs.axis, attrs.descending, str(attrs.dtype))
        if kind == "sort":
            places = self._emit(relax.op.argsort(keys, attrs.axis, attrs.descending, "int64"))
            return self._taken(data, places, attrs.axis)
        wanted = str(attrs.ret_type)
        count, index = int(attrs.k), str(attrs.dtype)
        places = relax.op.topk(keys, count, attrs.axis, "indices", attrs.largest, index)
        if wanted == "indices":
            return places
        values = self._taken(data, places := self._emit(places), attrs.axis)
        return values if wanted == "values" else relax.Tuple([self._emit(values), places])

    def _emit(self, value: relax.Expr) -> relax.Var:
        return self.builder_.emit(value)

    def _keys(self, data: relax.Expr, dtype: str) -> relax.Var:
        shape = static_shape(data, "What is sorted")
        name = f"{FUNCTION}_{len(self.builder_.get().functions)}"
        function = self.builder_.add_func(order_key(shape, dtype), name)
        return self._emit(relax.call_tir(function, data, relax.TensorType(shape, key_type(dtype))))

    def _taken(self, data: relax.Expr, places: relax.Expr, axis: int) -> relax.Expr:
        return relax.op.gather_elements(data, places, int(axis) % len(data.ty.shape))
