# SPDX-License-Identifier: Apache-2.0
"""Operators in place of calls of TIR functions that TVM's importers emit for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx, topi
from tvm.relax.expr_functor import PyExprMutator, mutator

from .fold import is_op

_BINARY: dict[str, tuple[Callable[..., Any], Callable[..., relax.Call]]] = {
    "maximum": (topi.maximum, relax.op.maximum),
    "minimum": (topi.minimum, relax.op.minimum),
}
"""By the name of the function: what it computes, and Relax's operator."""


def raise_calls(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Replace calls of elementwise TIR functions by the operators that they compute.

    TVM imports ONNX's ``Clip`` as two such functions. As operators they become a part of what
    computes their operand, and of the data layout that it has.
    """
    return _Raiser(mod).visit_expr(func)


@mutator
class _Raiser(PyExprMutator):
    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self._mod = mod

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        if not is_op(call, "call_tir"):
            return call
        variable, arguments = call.args[0], list(call.args[1].fields)
        found = _BINARY.get(variable.name_hint.rstrip("0123456789"))
        function = self._mod[variable]
        if found is None or not isinstance(function, tirx.PrimFunc):
            return call
        compute, operator = found
        number = _number(function) if len(arguments) == 1 else None
        if not _computes(function, compute, arguments, number):
            return call
        if number is not None:
            arguments.append(relax.const(number, str(arguments[0].ty.dtype.dtype)))
        return operator(*arguments)


def _number(function: tirx.PrimFunc) -> float:
    """Return the number that the code of a function of one operand has."""
    numbers: list[Any] = []
    tvm_ffi.structural_walk(function.body, [(tirx.FloatImm, numbers.append)])
    return float(numbers[-1].value) if numbers else 0.0


def _computes(
    function: tirx.PrimFunc,
    compute: Callable[..., Any],
    arguments: Sequence[relax.Expr],
    number: float | None,
) -> bool:
    """Return whether ``function`` is TVM's code of ``compute``."""
    operands: list[Any] = [relax.Var(f"x{i}", a.ty) for i, a in enumerate(arguments)]
    builder = relax.BlockBuilder()
    builder.call_te(compute, *operands, *([] if number is None else [number]))
    (expected,) = builder.get().functions.values()
    named = (f.without_attr("global_symbol") for f in (function, expected))
    same: bool = tvm_ffi.structural_equal(*named, map_free_vars=True)
    return same
