# SPDX-License-Identifier: Apache-2.0
"""Networks of 16-bit floating-point numbers, computed in float32.

Sums of 16-bit numbers lose all digits in a few hundred terms, and overflow; few processors have
instructions for them. Inputs and results keep their types. Casts that the network asks for round,
from 16 bits and to them; what it computes from numbers of 16 bits is not rounded otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import tvm
import tvm_ffi
from tvm import relax, tirx

from ..graph.recognise import is_recurrence
from ..relax_ir.building import building
from ..relax_ir.constants import constant_array
from ..relax_ir.expressions import op_name
from ..relax_ir.functions import bindings_of

_HALVES = ("float16", "bfloat16")
_WIDE = "float32"
_TYPED = ("dtype", "out_dtype")  # attributes
_PRODUCTS = frozenset(("matmul", "nn.conv1d", "nn.conv2d", "nn.attention", "nn.attention_bias"))
"""The operators that may multiply bfloat16."""


def widen_halves(_mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Return a function that computes in float32 instead of float16 and bfloat16."""
    if not any(_has_half(var.ty) for var in _variables(func)) or _branches(func):
        return func
    builder = relax.BlockBuilder()
    with building(), builder.function("main", func.params):
        widener = _Widener(builder, _of_recurrences(func))
        widener.begin(func.params)
        for block in func.body.blocks:
            for binding in block.bindings:
                widener.bind(binding)
        result = widener.result(func.body.body)
        builder.emit_func_output(result)
    made = builder.get()["main"]
    return relax.Function(made.params, made.body, made.ret_ty, func.is_pure, func.attrs)


def multiplies_bfloat16(func: relax.Function) -> bool:
    """Return whether all floating-point numbers that a function multiplies are bfloat16.

    Constants are computed before it runs.
    """
    known: set[relax.Var] = set()
    types: set[str] = set()
    for variable, value in bindings_of(func).items():
        if known.issuperset(relax.analysis.free_vars(value)):
            known.add(variable)
        elif op_name(value) in _PRODUCTS:
            types.update(str(factor.ty.dtype) for factor in value.args)
    return "bfloat16" in types and types.isdisjoint(("float16", "float32"))


def _variables(func: relax.Function) -> Iterator[relax.Var]:
    yield from func.params
    for block in func.body.blocks:
        yield from (binding.var for binding in block.bindings)


def _of_recurrences(func: relax.Function) -> set[relax.Expr]:
    """Return what recurrent layers read, and their results.

    They compute in float32: casts from 16 bits, and to them, are not the network's.
    """
    bound = bindings_of(func)
    found: set[relax.Expr] = set()
    for variable, value in bound.items():
        if is_recurrence(value):
            found.update(bound[v] for v in relax.analysis.free_vars(value) if v in bound)
        elif isinstance(value, relax.TupleGetItem) and is_recurrence(bound.get(value.tuple_value)):
            found.add(variable)
    return found


def _branches(func: relax.Function) -> bool:
    """Return whether a function has blocks inside, whose values are their own."""
    return any(isinstance(b.value, relax.If) for block in func.body.blocks for b in block.bindings)


def _has_half(ty: tvm.ir.Type) -> bool:
    if isinstance(ty, relax.TupleType):
        return any(map(_has_half, ty.fields))
    return isinstance(ty, relax.TensorType) and str(ty.dtype) in _HALVES


class _Widener:
    """Emits the bindings of a function again, with values of float32."""

    def __init__(self, builder: relax.BlockBuilder, exact: Collection[relax.Expr]) -> None:
        self._builder, self._exact = builder, exact
        self._values: dict[relax.Var, relax.Expr] = {}

    def begin(self, params: Sequence[relax.Var]) -> None:
        """Cast the inputs."""
        for parameter in params:
            self._values[parameter] = self._wide(parameter)

    def bind(self, binding: relax.Binding) -> None:
        self._values[binding.var] = self._bound(binding.value, binding.var.name)

    def result(self, expr: relax.Expr) -> relax.Expr:
        """Return a result of the function in the type that it has there."""
        return self._as(expr.ty, self._value(expr))

    def _bound(self, value: relax.Expr, name: str) -> relax.Expr:
        made = self._value(value)
        if isinstance(made, relax.Call):
            made = self._builder.emit(made, name)
        return self._wide(made)

    def _value(self, expr: relax.Expr) -> relax.Expr:
        if isinstance(expr, relax.Var):
            return self._values.get(expr, expr)
        if isinstance(expr, relax.Tuple):
            return relax.Tuple(list(map(self._value, expr.fields)))
        if isinstance(expr, relax.TupleGetItem):
            held = self._value(expr.tuple_value)
            if isinstance(held, relax.Tuple):
                return held.fields[expr.index]
            return self._builder.emit(relax.TupleGetItem(held, expr.index))
        if isinstance(expr, relax.Call):
            return self._call(expr)
        if isinstance(expr, tirx.FloatImm) and str(expr.ty) in _HALVES:
            return tirx.FloatImm(_WIDE, expr.value)
        return self._wide(expr)

    def _call(self, call: relax.Call) -> relax.Expr:
        name = op_name(call)
        if name == "astype":
            return self._cast(call)
        arguments = list(map(self._value, call.args))
        if not name or name.startswith("call_"):  # its types are fixed
            fixed = [self._as(a.ty, v) for a, v in zip(call.args, arguments, strict=True)]
            return relax.Call(call.op, fixed, call.attrs, call.ty_args)
        return relax.Call(call.op, arguments, _widened(call.attrs), call.ty_args)

    def _cast(self, call: relax.Call) -> relax.Expr:
        (given,), wanted = call.args, str(call.attrs.dtype)
        value, before = self._value(given), str(given.ty.dtype)
        if before == wanted or (wanted in _HALVES and given in self._exact):
            return value
        if wanted == _WIDE and before in _HALVES and call in self._exact:
            return value
        number = constant_array(given)
        if wanted in _HALVES and number is not None and not number.ndim:
            return relax.const(number.astype(_WIDE), _WIDE)  # of an operator's definition
        if before in _HALVES:  # what is cast is what a tensor of 16 bits holds
            value = self._builder.emit(relax.op.astype(value, before))
        if wanted not in _HALVES:
            return relax.op.astype(value, wanted)
        return relax.op.astype(self._builder.emit(relax.op.astype(value, wanted)), _WIDE)

    def _wide(self, expr: relax.Expr) -> relax.Expr:
        """Return a value with tensors of float32 instead of 16 bits."""
        if not isinstance(expr, relax.Expr) or not _has_half(expr.ty):
            return expr
        if isinstance(expr.ty, relax.TupleType):
            fields = [
                self._wide(self._builder.emit(relax.TupleGetItem(expr, i)))
                for i in range(len(expr.ty.fields))
            ]
            return relax.Tuple(fields)
        known = constant_array(expr)
        if known is not None:
            return relax.const(known.astype(_WIDE), _WIDE)
        return self._builder.emit(relax.op.astype(expr, _WIDE))

    def _as(self, ty: tvm.ir.Type, value: relax.Expr) -> relax.Expr:
        """Return a value with tensors of the types that it had."""
        if not _has_half(ty):
            return value
        if isinstance(ty, relax.TensorType):
            return self._builder.emit(relax.op.astype(value, str(ty.dtype)))
        fields = (
            value.fields
            if isinstance(value, relax.Tuple)
            else [self._builder.emit(relax.TupleGetItem(value, i)) for i in range(len(ty.fields))]
        )
        return relax.Tuple([self._as(t, f) for t, f in zip(ty.fields, fields, strict=True)])


def _widened(attrs: tvm.ir.Attrs | None) -> tvm.ir.Attrs | None:
    """Return attributes that say float32 instead of 16 bits."""
    if attrs is None or not any(str(getattr(attrs, n, "")) in _HALVES for n in _TYPED):
        return attrs
    info = type(attrs).__tvm_ffi_type_info__
    fields = {field.name: getattr(attrs, field.name) for field in info.fields}
    for name in _TYPED:
        if str(fields.get(name, "")) in _HALVES:
            fields[name] = tvm_ffi.dtype(_WIDE)
    return tvm.ir.make_node(info.type_key, **fields)
