# SPDX-License-Identifier: Apache-2.0
"""Operators in place of calls of TIR functions that TVM's importers emit for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx, topi
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..relax_ir.expressions import held_shape, is_op, known_shape

_BINARY: dict[str, tuple[Callable[..., Any], Callable[..., relax.Call]]] = {
    "maximum": (topi.maximum, relax.op.maximum),
    "minimum": (topi.minimum, relax.op.minimum),
}
"""By the name of the function: what it computes, and Relax's operator."""


def raise_calls(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Replace calls of TIR functions that clip or pad by the operators that they compute.

    TVM imports ONNX's ``Clip`` as two such functions, and ``Pad`` as one. As operators they become
    a part of what computes or reads their operand, and of the data layout that it has.
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
        name, function = variable.name_hint.rstrip("0123456789"), self._mod[variable]
        if not isinstance(function, tirx.PrimFunc):
            return call
        raised = None
        if name in _BINARY:
            raised = _binary(function, *_BINARY[name], arguments)
        elif name == "pad" and len(arguments) == 1:
            raised = _pad(function, arguments[0], held_shape(call))
        return call if raised is None else raised


def _binary(
    function: tirx.PrimFunc,
    compute: Callable[..., Any],
    operator: Callable[..., relax.Call],
    arguments: list[relax.Expr],
) -> relax.Expr | None:
    number = _number(function) if len(arguments) == 1 else None
    if not _computes(function, compute, arguments, number):
        return None
    if number is not None:
        arguments = [*arguments, relax.const(number, str(arguments[0].ty.dtype.dtype))]
    return operator(*arguments)


def _pad(function: tirx.PrimFunc, data: relax.Expr, result: tuple[int, ...]) -> relax.Expr | None:
    shape, loads = known_shape(data), _loads(function)
    if shape is None or len(loads) != 1:
        return None
    shifted = [(i, isinstance(i, tirx.Sub)) for i in loads[0].indices]  # those of TVM's code
    before = [int(index.b) if shifts else 0 for index, shifts in shifted]
    after = [r - s - b for r, s, b in zip(result, shape, before, strict=True)]
    number = _number(function)

    def pad(tensor: tvm.te.Tensor) -> tvm.te.Tensor:
        return topi.nn.pad(tensor, before, after, number)

    if min(before + after) < 0 or not _computes(function, pad, [data], None):
        return None
    widths = [width for pair in zip(before, after, strict=True) for width in pair]
    return relax.op.nn.pad(data, widths, "constant", number)


def _loads(function: tirx.PrimFunc) -> list[tvm.ir.expr.TensorLoad]:
    """Return the reads of the code of a function."""
    loads: list[tvm.ir.expr.TensorLoad] = []
    tvm_ffi.structural_walk(function.body, [(tvm.ir.expr.TensorLoad, loads.append)])
    return loads


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
