# SPDX-License-Identifier: Apache-2.0
"""TVM's own lowering of one operator, as one TIR function."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, te, tirx, topi

from ..graph.operators import Operator
from ..relax_ir.building import building
from ..relax_ir.constants import constant_array
from ..relax_ir.expressions import known_shape, op_name
from ..sizes.size import AnyShape, AnySize, Size, hints_of, is_open, size_of
from .no_rule import NoRule, shape_of
from .value import Value

_MAX_ELEMENTS = 2**31 - 1


@dataclass(frozen=True)
class Legalized:
    """An operator as one TIR function.

    Attributes
    ----------
    function : tirx.PrimFunc
        Its parameters are what it reads, in the order in which TVM's own fusion has them, open
        sizes, and its results.
    values : tuple of Value
        What it reads.
    shapes : tuple of tuples of sizes
        Of its tensors.
    sizes : tuple of sizes
        Those that are parameters.
    """

    function: tirx.PrimFunc
    values: tuple[Value, ...]
    shapes: tuple[AnyShape, ...]
    sizes: tuple[AnySize, ...]

    @property
    def opened(self) -> bool:
        """Whether any size is open."""
        return any(map(is_open, self.shapes))


def tir_of(op: Operator) -> Legalized:
    """Legalize the operator's bindings into one TIR function.

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
    fused = _fuse(isolated, op.functions)
    if fused is None:
        raise NoRule
    function, sizes = fused
    read = isolated.function.params[: len(isolated.values)]
    shapes = tuple(shape_of(v) for v in (*read, *op.outputs))
    if len(function.params) != len(shapes) + len(sizes) or not all(map(_is_reached, shapes)):
        raise NoRule  # TVM has dropped what is not read, such as a tensor whose shape alone counts
    return Legalized(function, isolated.values, shapes, sizes)


@dataclass(frozen=True)
class _Isolated:
    """An operator as a function of what it reads: its inputs, and constants beside numbers.

    The last parameter of the function is the open dimensions, if there are any.
    """

    function: relax.Function
    values: tuple[Value, ...]
    dimensions: tuple[tvm.ir.Var, ...] = ()


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
    dimensions = _dimensions([*values, *op.outputs])
    if dimensions:
        parameters.append(relax.Var("dimensions", relax.ShapeType(list(dimensions))))
    function = relax.Function(parameters, body, result.ty).with_attr("Primitive", True)
    return _Isolated(function, tuple(values), dimensions)


def _dimensions(values: Sequence[Value]) -> tuple[tvm.ir.Var, ...]:
    """Return the open dimensions that any of some tensors depends on, and those beside them."""
    shapes = (known_shape(value) for value in values if not isinstance(value, np.ndarray))
    sizes = (size for shape in shapes if shape is not None for size in shape)
    opened = next((size.owner for size in sizes if isinstance(size, Size)), None)
    return () if opened is None else tuple(opened.variables)


def _fuse(
    isolated: _Isolated, called: Mapping[tvm.ir.GlobalVar, tirx.PrimFunc]
) -> tuple[tirx.PrimFunc, tuple[AnySize, ...]] | None:
    """Return the operator as one TIR function, and the open sizes that it is given.

    None where TVM makes none or several of it.
    """
    builder = relax.BlockBuilder()
    own = {v: builder.add_func(function, v.name_hint) for v, function in called.items()}
    renamed = [(tvm.ir.GlobalVar, lambda variable: own.get(variable, variable))]
    gv = builder.add_func(tvm_ffi.structural_map(isolated.function, renamed), "op")
    parameters = [relax.Var(p.name, p.ty) for p in isolated.function.params]
    tensors = parameters[:-1] if isolated.dimensions else parameters
    given = [relax.ShapeExpr(isolated.dimensions)] if isolated.dimensions else []
    with building(), builder.function("main", parameters):  # FuseTIR fuses what somebody calls
        with builder.dataflow():
            result = builder.emit_output(relax.Call(gv, [*tensors, *given]))
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
    calls: list[relax.Call] = []
    tvm_ffi.structural_walk(mod["main"].body, (relax.Call, calls.append))
    calls = [call for call in calls if op_name(call) == "call_tir"]
    if len(functions) != 1 or len(calls) != 1:
        return None
    (call,) = calls
    sizes = tuple(size_of(a) for a in call.args[1] if isinstance(a.ty, tvm.ir.PrimType))
    return functions[0], sizes


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


def _is_reached(shape: AnyShape) -> bool:
    """Return whether 32-bit indices reach a tensor's elements."""
    return math.prod(hints_of(shape)) <= _MAX_ELEMENTS
