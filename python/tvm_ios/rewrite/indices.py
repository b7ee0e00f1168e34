# SPDX-License-Identifier: Apache-2.0
"""Bounds checks of indices that a network computes or receives.

TVM's kernels do not check indices: one out of range reads or writes memory outside the tensor. Here
each tensor of indices goes through a function that raises IndexError. On a device whose kernels
cannot raise, indices are clamped instead.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..ops.index_check import FUNCTION, Bounds, index_check
from ..relax_ir.constants import constant_array
from ..relax_ir.expressions import held_shape, is_op, is_static, known_shape
from ..relax_ir.functions import bindings_of
from ..sizes.arithmetic import require_least, require_most
from ..sizes.size import AnyShape, AnySize, Size, hint_of, is_open, size_of
from .scatter import scatter_elements

Extents = Callable[[relax.Call, int], AnyShape]
"""A function that returns the lengths of the axes that a call's n-th tensor of indices refers
to."""


def _along_axis(call: relax.Call, _number: int) -> AnyShape:
    shape, axis = held_shape(call.args[0]), call.attrs.axis
    return (math.prod(shape) if axis is None else shape[int(axis)],)


def _leading(call: relax.Call, number: int) -> AnyShape:
    return (held_shape(call.args[0])[number],)


def _coordinates(call: relax.Call, _number: int) -> AnyShape:
    first = int(getattr(call.attrs, "batch_dims", 0))
    return held_shape(call.args[0])[first : first + hint_of(held_shape(call.args[1])[-1])]


_EXTENTS: Mapping[str, Extents] = {
    "relax.take": _along_axis,
    "relax.gather_elements": _along_axis,
    "relax.gather_nd": _coordinates,
    "relax.index_tensor": _leading,
    "relax.index_put": _leading,
    "relax.scatter_elements": _along_axis,
    "relax.scatter_nd": _coordinates,
}
"""Operators whose second argument is a tensor of indices, or a tuple of such tensors."""

_COUNT_FROM_THE_END = frozenset({"relax.scatter_elements", "relax.index_put"})
"""Operators that accept negative indices. For others, importers convert them."""

_SAFE_MODES = ("clip", "wrap", "nan")

Safe = Callable[[relax.BlockBuilder, relax.Expr, Bounds, str], relax.Expr]
"""A function ``(builder, indices, bounds, description)`` that returns indices within the bounds."""


def safe_indices(function: str, *, checked: bool) -> tvm.transform.Pass:
    """Return a pass that makes the indices of a function safe.

    Parameters
    ----------
    function : str
        The name of the function.
    checked : bool
        Whether to raise IndexError for an index out of bounds. Otherwise, for devices whose kernels
        cannot raise, indices are clamped. A constant out of bounds raises in any case.
    """

    @tvm.transform.module_pass(opt_level=0, name="tvm_ios.safe_indices")
    def apply(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
        safe = functools.partial(_checked, _scope(mod[function])) if checked else _clamped
        rewriter = _IndexRewriter(mod, bindings_of(mod[function]), safe)
        rewritten = rewriter.visit_expr(mod[function])
        rewriter.builder_.update_func(mod.get_global_var(function), rewritten)
        return rewriter.builder_.get()

    return apply


@mutator
class _IndexRewriter(PyExprMutator):
    """A mutator that makes the indices of calls safe."""

    def __init__(
        self, mod: tvm.IRModule, bound: Mapping[relax.Var, relax.Expr], safe: Safe
    ) -> None:
        super().__init__(mod)
        self._bound, self._safe = bound, safe

    def visit_call_(self, op: relax.Call) -> relax.Expr:
        name = op.op.name if isinstance(op.op, tvm.ir.Op) else ""
        if name not in _EXTENTS or getattr(op.attrs, "mode", None) in _SAFE_MODES:
            return super().visit_call_(op)
        data, given, *others = op.args
        parts = self._parts(given)
        if any(known_shape(tensor) is None for tensor in (data, *parts)):
            return super().visit_call_(op)
        if name == "relax.take" and (sliced := self._sliced(op, parts[0])) is not None:
            return sliced
        made = [self._make_safe(op, part, number) for number, part in enumerate(parts)]
        indices = relax.Tuple(made) if isinstance(given.ty, relax.TupleType) else made[0]
        data, *others = (self.visit_expr(argument) for argument in (data, *others))
        if name == "relax.take":  # TVM warns of its other modes
            return relax.op.take(data, indices, op.attrs.axis, mode="clip")
        if name == "relax.scatter_elements":
            (updates,) = others
            return scatter_elements(data, indices, updates, op.attrs)
        return relax.Call(op.op, [data, indices, *others], op.attrs, op.ty_args)

    def _parts(self, given: relax.Expr) -> list[relax.Expr]:
        """Return the tensors of indices that an operator receives."""
        if not isinstance(given.ty, relax.TupleType):
            return [given]
        made = self._bound.get(given, given)
        if isinstance(made, relax.Tuple):
            return list(made.fields)
        return [relax.TupleGetItem(given, i) for i in range(len(given.ty.fields))]

    def _make_safe(self, op: relax.Call, indices: relax.Expr, number: int) -> relax.Expr:
        name = op.op.name
        extents = _EXTENTS[name](op, number)
        counted = self._counted(indices, extents)
        bounds = Bounds(extents, counted is not None or name in _COUNT_FROM_THE_END)
        indices = self._uncut(indices if counted is None else counted)
        what = f"The indices of {name.removeprefix('relax.')}, {self._name(indices)},"
        known = constant_array(indices)
        if known is not None and not is_open(extents):
            return relax.const(_counted_from_the_begin(known, bounds, what), str(known.dtype))
        return self._safe(self.builder_, self.visit_expr(indices), bounds, what)

    def _sliced(self, op: relax.Call, indices: relax.Expr) -> relax.Expr | None:
        """Return what is taken at one constant place of an axis whose length is open."""
        (extent,) = _along_axis(op, 0)
        counted = self._counted(indices, [extent])
        known = constant_array(indices if counted is None else counted)
        if op.attrs.axis is None or known is None or known.size != 1 or known.ndim > 1:
            return None
        place: AnySize = int(known.reshape(-1)[0])
        if not isinstance(extent, Size):
            return None
        if counted is not None and hint_of(place) < 0:
            place = extent + place
        if not (require_least(place, 0) and require_most(place + 1, extent)):
            return None
        axis = int(op.attrs.axis) % len(op.args[0].ty.shape)
        data = self.visit_expr(op.args[0])
        sliced = relax.op.strided_slice(data, [axis], [place], [place + 1], assume_inbound=True)
        part = self.builder_.emit(sliced)
        return part if known.ndim else relax.op.squeeze(part, [axis])

    def _counted(self, indices: relax.Expr, extents: Sequence[AnySize]) -> relax.Expr | None:
        """Return the original indices, which may be negative, if ``indices`` are their conversion.

        Importers write ``where(i < 0, i + extent, i)``. An error in the result would not name the
        index that was given.
        """
        where = self._value(indices)
        if not is_op(where, "where"):
            return None
        condition, shifted, given = where.args
        less, added = self._value(condition), self._value(shifted)
        if not is_op(less, "less") or not is_op(added, "add"):
            return None
        if not all(call.args[0].same_as(given) for call in (less, added)):
            return None
        zero, extent = self._known(less.args[1]), self._known(added.args[1])
        if zero is None or extent is None or zero.any():
            return None
        return given if np.array_equal(extent.ravel(), extents) else None

    def _uncut(self, indices: relax.Expr) -> relax.Expr:
        """Return the indices before importers cast them to a narrower integer.

        A cast could bring an index within the bounds.
        """
        cast = self._value(indices)
        if is_op(cast, "astype"):
            before, after = (e.ty.dtype.dtype for e in (cast.args[0], cast))
            if before.type_code == after.type_code and before.bits > after.bits:
                return self._uncut(cast.args[0])
        return indices

    def _known(self, expr: relax.Expr) -> np.ndarray | None:
        """Return constants, or extents of a tensor that importers compute from its shape."""
        value = self._value(expr)
        if is_op(value, "astype"):
            return self._known(value.args[0])
        if is_op(value, "shape_to_tensor"):
            shape = self._value(value.args[0])
            if isinstance(shape, relax.ShapeExpr):
                return np.array([size_of(n) for n in shape.values])
            static = is_op(shape, "shape_of") and is_static(shape.args[0])
            return np.array(held_shape(shape.args[0])) if static else None
        if is_op(value, "reshape"):
            return self._known(value.args[0])
        if is_op(value, "take"):
            data, at = (self._known(a) for a in value.args)
            return None if data is None or at is None else data.take(at, mode="wrap")
        if is_op(value, "strided_slice"):
            data = self._known(value.args[0])
            begin, end = (int(a.fields[0]) for a in value.args[2:4])
            return None if data is None else data[begin:end]
        return constant_array(value)

    def _value(self, expr: relax.Expr) -> relax.Expr:
        return self._bound.get(expr, expr)

    def _name(self, indices: relax.Expr) -> str:
        """Return the name of the given indices, looking through casts and reshapes."""
        value = self._value(indices)
        while any(is_op(value, name) for name in ("astype", "reshape", "squeeze", "expand_dims")):
            indices, value = value.args[0], self._value(value.args[0])
        return repr(indices.name) if isinstance(indices, relax.Var) else "a constant"


def _scope(function: relax.Function) -> str:
    """Return digits for the shapes of a network, of which a library may have several."""
    types = ", ".join(str(parameter.ty) for parameter in function.params)
    return hashlib.sha256(types.encode()).hexdigest()[:8]


def _counted_from_the_begin(indices: np.ndarray, bounds: Bounds, what: str) -> np.ndarray:
    """Return constant indices as :func:`~tvm_ios.ops.index_check.index_check` does.

    To compile that function for each of a transformer's constants would take seconds.
    """
    values = indices.astype("int64")
    for number, extent in enumerate(bounds.extents):
        part = values[..., number] if len(bounds.extents) > 1 else values[...]
        first = bounds.first(extent)
        outside = part[(part < first) | (part >= extent)]
        if outside.size:
            raise IndexError(f"{what} must be from {first} to {extent - 1}, got {outside[-1]}.")
        part[part < 0] += extent
    return values.astype(indices.dtype)


def _checked(
    scope: str, builder: relax.BlockBuilder, indices: relax.Expr, bounds: Bounds, what: str
) -> relax.Expr:
    shape, dtype = held_shape(indices), str(indices.ty.dtype.dtype)
    name = f"{FUNCTION}_{len(builder.get().functions)}"
    function = builder.add_func(index_check(name, shape, dtype, bounds, what, scope), name)
    opened = [extent.expr for extent in bounds.extents if isinstance(extent, Size)]
    given = relax.Tuple([indices, *opened])
    return builder.emit(relax.call_tir(function, given, relax.TensorType(shape, dtype)))


def _clamped(
    builder: relax.BlockBuilder, indices: relax.Expr, bounds: Bounds, what: str
) -> relax.Expr:
    dtype = str(indices.ty.dtype.dtype)
    extents = relax.const(np.array(bounds.extents, dtype), dtype)
    zero, one = relax.const(0, dtype), relax.const(1, dtype)
    if bounds.negative:
        added = relax.op.add(indices, extents)
        indices = relax.op.where(relax.op.less(indices, zero), added, indices)
    last = relax.op.subtract(extents, one)
    return builder.emit(relax.op.minimum(relax.op.maximum(indices, zero), last))
