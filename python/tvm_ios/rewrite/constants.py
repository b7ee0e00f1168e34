# SPDX-License-Identifier: Apache-2.0
"""Folding of constants by NumPy.

TVM's ``FoldConstant`` compiles each operator that it folds, which takes tens of milliseconds. Most
of them only give a bias the axes of a convolution's result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..relax_ir.constants import constant_array
from ..relax_ir.expressions import is_static
from ..relax_ir.functions import bindings_of

Fold = Callable[[relax.Call, Sequence[np.ndarray]], np.ndarray | None]
"""Computes a call of known operands; None if NumPy would round otherwise."""


def fold_constants(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Replace data movements of constants, their basic arithmetic and means by constants."""
    return _Folder(mod, bindings_of(func)).visit_expr(func)


@mutator
class _Folder(PyExprMutator):
    def __init__(self, mod: tvm.IRModule, bound: dict[relax.Var, relax.Expr]) -> None:
        super().__init__(mod)
        self._bound = bound
        self._known: dict[relax.Var, relax.Expr | None] = {}
        self._results: dict[relax.Call, relax.Expr | None] = {}

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        """Leave out a binding of a constant, as all that read it get the constant."""
        inside, value = isinstance(binding.var, relax.DataflowVar), binding.value
        if inside and isinstance(value, relax.Call) and self._folded(value) is not None:
            return
        super().visit_var_binding_(binding)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        folded = self._folded(call)
        return super().visit_call_(call) if folded is None else folded

    def visit_dataflow_var_(self, var: relax.DataflowVar) -> relax.Expr:
        if var not in self._known:
            bound = self._bound.get(var)
            self._known[var] = self._folded(bound) if isinstance(bound, relax.Call) else None
        known = self._known[var]
        return super().visit_dataflow_var_(var) if known is None else known

    def _folded(self, call: relax.Call) -> relax.Expr | None:
        """Return the constant that a call computes; None if it is left to TVM.

        It is computed once, for the binding and for all that read it.
        """
        if call not in self._results:
            self._results[call] = self._computed(call)
        return self._results[call]

    def _computed(self, call: relax.Call) -> relax.Expr | None:
        fold = _FOLDS.get(call.op.name) if isinstance(call.op, tvm.ir.Op) else None
        if fold is None or not is_static(call):
            return None
        tensors = [a for a in call.args if isinstance(a.ty, relax.TensorType)]
        arrays = [self._array(argument) for argument in tensors]
        known = [array for array in arrays if array is not None]
        if len(known) != len(arrays):
            return None
        result = fold(call, known)
        return None if result is None else _constant(result, str(call.ty.dtype))

    def _array(self, expr: relax.Expr) -> np.ndarray | None:
        if isinstance(expr, relax.DataflowVar):
            expr = self.visit_expr(expr)
        return constant_array(expr)


def _constant(array: np.ndarray, dtype: str) -> relax.Expr:
    """Return a constant of an array, which may be in any order: it is copied once."""
    tensor = tvm.runtime.empty(array.shape, dtype)
    try:
        result = np.from_dlpack(tensor)
    except RuntimeError:  # NumPy does not have its type, such as bfloat16
        return relax.const(array, dtype)
    if array.ndim == 2 and array.flags.f_contiguous:
        for begin in range(0, array.shape[1], _COLUMNS):
            columns = slice(begin, begin + _COLUMNS)
            result[:, columns] = array[:, columns]
    else:
        result[...] = array
    return relax.const(tensor)


def _shaped(call: relax.Call, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Give the elements another shape; they stay in order."""
    return arrays[0].reshape(_shape(call))


def _broadcast(call: relax.Call, arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.broadcast_to(arrays[0], _shape(call))


def _permuted(call: relax.Call, arrays: Sequence[np.ndarray]) -> np.ndarray:
    return arrays[0].transpose(None if call.attrs.axes is None else list(map(int, call.attrs.axes)))


def _arithmetic(compute: Callable[..., np.ndarray]) -> Fold:
    def fold(call: relax.Call, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
        if any(str(array.dtype) not in _EXACT for array in arrays):
            return None
        with np.errstate(all="ignore"):
            return compute(*arrays)

    return fold


def _mean(call: relax.Call, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """Average in float64, which rounds less than TVM's code does."""
    (array,), axes = arrays, call.attrs.axis
    if str(array.dtype) not in _EXACT:
        return None
    chosen = None if axes is None else tuple(map(int, axes))
    mean = array.mean(chosen, "float64", keepdims=bool(call.attrs.keepdims))
    return np.asarray(mean, array.dtype)


def _extreme(reduce: Callable[..., np.ndarray]) -> Fold:
    def fold(call: relax.Call, arrays: Sequence[np.ndarray]) -> np.ndarray:
        axes = None if call.attrs.axis is None else tuple(map(int, call.attrs.axis))
        return np.asarray(reduce(arrays[0], axes, keepdims=bool(call.attrs.keepdims)))

    return fold


def _in_double(compute: Callable[..., np.ndarray]) -> Fold:
    """Return a fold that computes in float64, which rounds less than TVM's code does."""

    def fold(call: relax.Call, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
        dtype = str(call.ty.dtype)
        if any(str(array.dtype) != dtype for array in arrays) or dtype not in _EXACT:
            return None
        with np.errstate(all="ignore"):
            return np.asarray(compute(*(array.astype("float64") for array in arrays)), dtype)

    return fold


def _taken(call: relax.Call, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    if call.attrs.mode != "clip":
        return None
    data, indices = arrays
    axis = None if call.attrs.axis is None else int(call.attrs.axis)
    return np.take(data, indices, axis, mode="clip")


def _padded(call: relax.Call, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    if call.attrs.pad_mode != "constant":
        return None
    widths = np.array([int(width) for width in call.attrs.pad_width]).reshape(-1, 2)
    return np.pad(arrays[0], widths, constant_values=call.attrs.pad_value)


def _of_any_type(compute: Callable[..., np.ndarray]) -> Fold:
    return lambda _call, arrays: compute(*arrays)


def _shape(call: relax.Call) -> list[int]:
    return [int(extent) for extent in call.ty.shape.values]


_COLUMNS = 16  # of a transposition at a time: so many lines of the cache are written in turn
_EXACT = ("float32", "float64")  # whose arithmetic NumPy rounds as TVM's code does
_FOLDS: dict[str, Fold] = {
    "relax.add": _arithmetic(np.add),
    "relax.broadcast_to": _broadcast,
    "relax.divide": _arithmetic(np.divide),
    "relax.equal": _of_any_type(np.equal),
    "relax.expand_dims": _shaped,
    "relax.isnan": _of_any_type(np.isnan),
    "relax.logical_not": _of_any_type(np.logical_not),
    "relax.matmul": _in_double(np.matmul),
    "relax.max": _extreme(np.max),
    "relax.mean": _mean,
    "relax.min": _extreme(np.min),
    "relax.multiply": _arithmetic(np.multiply),
    "relax.nn.pad": _padded,
    "relax.nn.relu": _arithmetic(lambda x: np.maximum(x, 0)),
    "relax.permute_dims": _permuted,
    "relax.reshape": _shaped,
    "relax.sigmoid": _in_double(lambda x: 1 / (1 + np.exp(-x))),
    "relax.sqrt": _arithmetic(np.sqrt),
    "relax.squeeze": _shaped,
    "relax.subtract": _arithmetic(np.subtract),
    "relax.take": _taken,
    "relax.where": _of_any_type(np.where),
}
