# SPDX-License-Identifier: Apache-2.0
"""TVM's own lowering of one operator, as one TIR function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import tvm
import tvm_ffi
from tvm import relax, te, tirx, topi

from ..graph.operators import Operator
from ..relax_ir.building import building
from ..relax_ir.constants import constant_array
from .no_rule import NoRule
from .value import Value

_MAX_ELEMENTS = 2**31 - 1


def tir_of(op: Operator) -> tuple[tirx.PrimFunc, tuple[Value, ...]]:
    """Legalize the operator's bindings into one TIR function and what it reads.

    Its parameters are what it reads, in the order in which TVM's own fusion has them, and its
    results.

    Raises
    ------
    NoRule
        When TVM makes no single TIR function of them, or one of unknown sizes.
    """
    values = (*op.inputs, *op.outputs)
    if not op.outputs or not all(isinstance(v.ty, relax.TensorType) for v in values):
        raise NoRule
    if not all(_is_operator_call(binding.value) for binding in op.bindings):
        raise NoRule
    isolated = _isolate(op)
    function = _fuse(isolated, op.functions)
    if function is None or not _is_static(function):
        raise NoRule
    if len(function.params) != len(isolated.values) + len(op.outputs):
        raise NoRule  # TVM has dropped what is not read, such as a tensor whose shape alone counts
    return function, isolated.values


@dataclass(frozen=True)
class _Isolated:
    """An operator as a function of what it reads: its inputs, and constants beside numbers."""

    function: relax.Function
    values: tuple[Value, ...]


def _isolate(op: Operator) -> _Isolated:
    """Return the operator's bindings as a primitive function."""
    values: list[Value] = []
    parameters: list[relax.Var] = []
    known: dict[relax.Var, relax.Var] = {}

    def parameter(value: Value, ty: relax.Type) -> relax.Var:
        values.append(value)
        parameters.append(relax.Var(f"p{len(parameters)}", ty))
        return parameters[-1]

    def lift(constant: tvm.ir.GenericConst) -> relax.Expr:
        array = constant_array(constant)
        return constant if array is None or array.ndim == 0 else parameter(array, constant.ty)

    def read(variable: relax.Var) -> relax.Var:
        if variable in op.inputs and variable not in known:
            known[variable] = parameter(variable, variable.ty)
        return known.get(variable, variable)

    replace = [(tvm.ir.GenericConst, lift), (relax.Var, read)]
    bindings = [
        relax.VarBinding(b.var, tvm_ffi.structural_map(b.value, replace)) for b in op.bindings
    ]
    result = op.outputs[0] if len(op.outputs) == 1 else relax.Tuple(list(op.outputs))
    returned = relax.Var("returned", result.ty)
    block = relax.DataflowBlock([*bindings, relax.VarBinding(returned, result)])
    body = relax.SeqExpr([block], returned)
    function = relax.Function(parameters, body, result.ty).with_attr("Primitive", True)
    return _Isolated(function, tuple(values))


def _fuse(
    isolated: _Isolated, called: Mapping[tvm.ir.GlobalVar, tirx.PrimFunc]
) -> tirx.PrimFunc | None:
    """Return the operator as one TIR function; None where TVM makes none or several of it."""
    builder = relax.BlockBuilder()
    own = {v: builder.add_func(function, v.name_hint) for v, function in called.items()}
    renamed = [(tvm.ir.GlobalVar, lambda variable: own.get(variable, variable))]
    gv = builder.add_func(tvm_ffi.structural_map(isolated.function, renamed), "op")
    parameters = [relax.Var(p.name, p.ty) for p in isolated.function.params]
    with building(), builder.function("main", parameters):  # FuseTIR fuses what somebody calls
        with builder.dataflow():
            result = builder.emit_output(relax.Call(gv, parameters))
        builder.emit_func_output(result)
    passes = [
        relax.transform.CanonicalizeBindings(),
        relax.transform.LegalizeOps({"relax.where": _where}),
        relax.transform.FuseTIR(),
    ]
    try:
        mod = tvm.transform.Sequential(passes)(builder.get())
    except Exception:  # what TVM cannot lower alone stays as TVM has it
        return None
    functions = [f for f in mod.functions.values() if isinstance(f, tirx.PrimFunc)]
    return functions[0] if len(functions) == 1 else None


def _where(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Choose among tensors and numbers; TVM itself leaves a number as a constant of no axes.

    It refuses to fuse such constants.
    """

    def compute(*operands: te.Tensor | tirx.FloatImm | tirx.IntImm) -> te.Tensor:
        return topi.where(*(o if isinstance(o, te.Tensor) else _filled(o) for o in operands))

    return builder.call_te(compute, *map(_number_or_tensor, call.args))


def _number_or_tensor(operand: relax.Expr) -> relax.Expr | tirx.FloatImm | tirx.IntImm:
    array = constant_array(operand)
    if array is None or array.ndim or str(array.dtype) == "bfloat16":
        return operand
    return tirx.const(array.item(), str(array.dtype))


def _filled(number: tirx.FloatImm | tirx.IntImm) -> te.Tensor:
    """Return a number as a tensor with one axis, which broadcasts."""
    return te.compute((1,), lambda _: number, "number")


def _is_operator_call(value: relax.Expr) -> bool:
    return isinstance(value, relax.TupleGetItem) or (
        isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.Op)
    )


def _is_static(func: tirx.PrimFunc) -> bool:
    """Return whether all tensors have axes, of known sizes that 32-bit indices reach.

    TVM cannot narrow the index that it makes up for a tensor without axes.
    """
    for parameter in func.params:
        shape = getattr(parameter, "shape", None)
        if not shape or not all(isinstance(d, tirx.IntImm) for d in shape):
            return False
        size = 1
        for d in shape:
            size *= int(d)
        if not 0 < size <= _MAX_ELEMENTS:
            return False
    return True
