# SPDX-License-Identifier: Apache-2.0
"""What is known of the results of a function, from the first binding to the last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx

from ...relax_ir.constants import constant_array
from ...relax_ir.expressions import op_name
from .combine import combine
from .meaning import Meaning, Operation
from .refusal import RefusalError
from .rules import own
from .rules.constants import folded
from .rules.table import MEANINGS, VALUES
from .value import Known, Tracking, Value


def results_of(
    mod: tvm.IRModule, function: relax.Function, inputs: Sequence[Value], tracking: Tracking
) -> list[Value | RefusalError]:
    """Return what is known of the tensors that a function returns.

    Parameters
    ----------
    mod : tvm.IRModule
        With the TIR functions that are called.
    function : relax.Function
        Whose tensors have static shapes.
    inputs : sequence of Value
    tracking : Tracking
    """
    network = _Network(mod, tracking)
    network.known.update(zip(function.params, inputs, strict=True))
    for block in function.body.blocks:
        for binding in block.bindings:
            value = binding.value if isinstance(binding, relax.VarBinding) else None
            network.known[binding.var] = network.guarded(value)
    return list(_leaves(network.guarded(function.body.body)))


def _leaves(known: Known) -> Iterator[Any]:
    if isinstance(known, tuple):
        for part in known:
            yield from _leaves(part)
    else:
        yield known


class _Network:
    def __init__(self, mod: tvm.IRModule, tracking: Tracking) -> None:
        self._mod, self._tracking = mod, tracking
        self.known: dict[relax.Var, Known] = {}

    def guarded(self, expr: relax.Expr | None) -> Known:
        """Return what is known of an expression: a refusal if a rule raises one."""
        try:
            return self._of(expr)
        except RefusalError as refusal:
            return refusal

    def _of(self, expr: relax.Expr | None) -> Known:
        array = None if expr is None else constant_array(expr)
        if array is not None:
            return self._tracking.constant(array)
        if isinstance(expr, relax.Var):
            return self.known.get(expr, RefusalError("a variable is not bound"))
        if isinstance(expr, relax.Tuple):
            return tuple(map(self.guarded, expr.fields))
        if isinstance(expr, relax.TupleGetItem):
            whole = self._of(expr.tuple_value)
            return whole[int(expr.index)] if isinstance(whole, tuple) else whole
        if isinstance(expr, relax.Call):
            return self._call(expr)
        raise RefusalError(f"there is no rule for {type(expr).__name__}")

    def _call(self, call: relax.Call) -> Known:
        name = op_name(call)
        operation = self._operation(call, name)
        function = self._function(call) if name == "call_tir" else None
        found = None if function is None else own.meanings(function, operation)
        try:
            if found is not None:
                meanings, label = found
                return self._combined(replace(operation, others=(), label=label), meanings)
            array = folded(operation)
            if array is not None:
                return self._tracking.constant(array)
            if name in VALUES:
                return VALUES[name](self._tracking, operation)
            if name in MEANINGS:
                return self._combined(operation, MEANINGS[name](operation))
            return self._shared(operation, function)
        except RefusalError as refusal:
            raise RefusalError(f"{name or call.op} {refusal}") from refusal

    def _operation(self, call: relax.Call, name: str) -> Operation:
        operands: list[Value] = []
        others = []
        for argument in call.args:
            if isinstance(argument, relax.Tuple) and not _has_tensors(argument):
                others.append(argument)
            elif isinstance(argument.ty, relax.TensorType | relax.TupleType):
                operands += self._values(argument)
            else:
                others.append(argument)
        types = call.ty.fields if isinstance(call.ty, relax.TupleType) else [call.ty]
        shapes = tuple(_shape(ty) for ty in types)
        dtypes = tuple(str(getattr(ty, "dtype", "")) for ty in types)
        return Operation(name, call.attrs, tuple(operands), tuple(others), shapes, dtypes)

    def _values(self, argument: relax.Expr) -> Iterator[Value]:
        for leaf in _leaves(self._of(argument)):
            if isinstance(leaf, RefusalError):
                raise leaf
            yield leaf

    def _function(self, call: relax.Call) -> tirx.PrimFunc | None:
        function = self._mod[call.args[0]] if isinstance(call.args[0], tvm.ir.GlobalVar) else None
        return function if isinstance(function, tirx.PrimFunc) else None

    def _combined(self, operation: Operation, meanings: Sequence[Meaning]) -> Known:
        """Return what is known of each result; of some it may be that they must not be read."""
        if len(meanings) == 1:
            return combine(self._tracking, operation, meanings[0], 0)
        results: list[Value | RefusalError] = []
        for number, meaning in enumerate(meanings):
            try:
                results.append(combine(self._tracking, operation, meaning, number))
            except RefusalError as refusal:
                results.append(RefusalError(f"{operation.name} {refusal}"))
        return tuple(results)

    def _shared(self, operation: Operation, function: tirx.PrimFunc | None) -> Known:
        """Return the results of an operator that reads nothing which has rows or positions."""
        if any(operand.carried for operand in operation.operands):
            raise RefusalError("has no rule")
        what = operation.described
        if function is not None:
            code = tvm_ffi.StructuralKey(function.without_attr("global_symbol"))
            what = (*operation.named, code)
        whole = map(self._tracking.whole, operation.operands)
        operands = tuple((v.key, v.kept) for v in whole)
        results = tuple(
            Value(shape, self._tracking.key(what, number, operands), shape)
            for number, shape in enumerate(operation.shapes)
        )
        return results if len(results) > 1 else results[0]


def _has_tensors(argument: relax.Tuple) -> bool:
    return any(isinstance(f.ty, relax.TensorType | relax.TupleType) for f in argument.fields)


def _shape(ty: tvm.ir.Type) -> tuple[int, ...]:
    """Return the shape of a result.

    Raises
    ------
    RefusalError
        If it is not static.
    """
    sizes = getattr(getattr(ty, "shape", None), "values", None)
    if sizes is None or not all(isinstance(size, tirx.IntImm) for size in sizes):
        raise RefusalError("has a result of unknown shape")
    return tuple(int(size) for size in sizes)
