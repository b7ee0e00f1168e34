# SPDX-License-Identifier: Apache-2.0
"""Conversion of Relay's syntax tree to Relax."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax

from ..frontend.bindings import Bindings
from ..frontend.emitter import Emitter, constant, constant_array, dtype_of, shape_of
from ..relax_ir.building import building
from ..support.errors import RelayError
from .ast import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    Module,
    Operator,
    TensorType,
    TupleType,
    Type,
    Var,
)
from .budget import Budget
from .evaluate import Evaluator
from .operators import OPERATORS, Value, apply
from .walk import parts

Arrays = Mapping[str, np.ndarray]
Shapes = Mapping[str, Sequence[int]]


def convert(
    module: Module, params: Arrays | None = None, input_shapes: Shapes | None = None
) -> tvm.IRModule:
    """Convert ``@main`` of a Relay module to Relax.

    Parameters
    ----------
    module : Module
        The result of :func:`tvm_ios.relay.parse`.
    params : mapping of str to array, optional
        Values of parameters of ``@main`` by name. These become constants, the others arguments.
    input_shapes : mapping of str to sequence of int, optional
        Shapes of parameters that have unknown dimensions.

    Returns
    -------
    tvm.IRModule
        A module whose only function, "main", is one dataflow block. Other functions are inlined,
        tuples are flattened, and an ``if`` is replaced by the branch that its constant condition
        selects.

    Raises
    ------
    RelayError
        If an operator or an attribute cannot be converted (the message names all unknown
        operators), if the values or the shapes do not fit, or if a function is recursive.
    """
    main = _main(module)
    reached = list(_reachable(module, main))
    _check_operators(reached)
    params = {name: np.asarray(value) for name, value in (params or {}).items()}
    types = _types(main, input_shapes or {})
    _check_params(main, types, params)
    arguments: dict[Var, relax.Expr] = {
        var: constant(params[var.name])
        if var.name in params
        else relax.Var(var.name, _relax_type(types[var]))
        for var in main.params
    }
    return _build(module, main, arguments, _budget(reached, params))


def _budget(reached: Sequence[Expr], params: Arrays) -> Budget:
    """Return the limits for a network of these expressions and weights."""
    held = {id(expr.value): expr.value.nbytes for expr in reached if isinstance(expr, Constant)}
    size = sum(held.values()) + sum(value.nbytes for value in params.values())
    return Budget.of_network(len(reached), size)


def _build(
    module: Module, main: Function, arguments: Mapping[Var, relax.Expr], budget: Budget
) -> tvm.IRModule:
    """Build the module that applies ``main`` to variables and constants."""
    builder = relax.BlockBuilder()
    variables = [value for value in arguments.values() if isinstance(value, relax.Var)]
    with building(), builder.function("main", variables):
        try:
            with builder.dataflow():
                bindings = Bindings(builder, budget)
                values = {var: _taken_apart(bindings, value) for var, value in arguments.items()}
                result = _evaluator(module, bindings, budget).run(main, values)
                output = builder.emit_output(_put_together(result))
        except BaseException:
            builder.emit_func_output(relax.Tuple([]))  # TVM warns of open functions
            raise
        builder.emit_func_output(output)
    return builder.finalize()


def _main(module: Module) -> Function:
    if "main" not in module.functions:
        known = ", ".join(f"@{name}" for name in module.functions) or "none"
        raise RelayError(f"The module has no function @main; it has: {known}.")
    return module.functions["main"]


def _check_operators(reached: Sequence[Expr]) -> None:
    """Raise RelayError with the names of all operators that have no converter."""
    unknown: dict[str, int | None] = {}
    for expr in reached:
        if isinstance(expr, Call) and isinstance(expr.callee, Operator):
            name = expr.callee.name
            if name not in OPERATORS:
                unknown.setdefault(name, expr.line)
    if unknown:
        listed = ", ".join(
            name if line is None else f"{name} (line {line})"
            for name, line in sorted(unknown.items())
        )
        raise RelayError(
            f"These operators cannot be converted to Relax: {listed}; "
            "replace them by others before you save the model."
        )


def _reachable(module: Module, main: Function) -> Iterator[Expr]:
    """Yield each expression that ``main`` may evaluate, once."""
    seen: set[Expr] = set()
    waiting: list[Expr] = [main]
    while waiting:
        expr = waiting.pop()
        if expr in seen:
            continue
        seen.add(expr)
        yield expr
        waiting += parts(expr)
        if isinstance(expr, GlobalVar) and expr.name in module.functions:
            waiting.append(module.functions[expr.name])


def _types(main: Function, shapes: Shapes) -> dict[Var, Type]:
    """Return the type of each parameter, with all dimensions known."""
    known = [var.name for var in main.params]
    strange = [name for name in shapes if name not in known]
    if strange:
        raise RelayError(
            f"@main has no parameter {', '.join(strange)}; its parameters: {', '.join(known)}."
        )
    return {var: _complete(var.name, var.type, shapes.get(var.name)) for var in main.params}


def _complete(name: str, declared: Type | None, given: Sequence[int] | None) -> Type:
    if isinstance(declared, TupleType) and given is None:
        fields = (_complete(f"{name}.{i}", t, None) for i, t in enumerate(declared.fields))
        return TupleType(tuple(fields))
    complete = _complete_tensor(name, declared, given)
    _check_type_exists(name, complete)
    return complete


def _check_type_exists(name: str, tensor: TensorType) -> None:
    """Raise RelayError for a tensor type that Relax does not support."""
    where = f"Parameter {name!r} of @main"
    try:
        tvm.DataType(tensor.dtype)
    except ValueError:
        raise RelayError(f"{where} has type {tensor.dtype}, which Relax does not have.") from None
    shape = [size for size in tensor.shape if size is not None]
    assert len(shape) == len(tensor.shape), "it was completed"
    Budget.check_tensor(shape, tensor.dtype, where)


def _complete_tensor(name: str, declared: Type | None, given: Sequence[int] | None) -> TensorType:
    if not isinstance(declared, TensorType):
        raise RelayError(f"Parameter {name!r} of @main is not a tensor of known type; annotate it.")
    if given is None:
        if None in declared.shape:
            raise RelayError(
                f"Parameter {name!r} of @main has unknown dimensions; fix them with "
                f'--input-shapes "{name}:[...]".'
            )
        return declared
    pairs = zip(declared.shape, given, strict=False)
    if len(given) != len(declared.shape) or any(size not in (None, new) for size, new in pairs):
        raise RelayError(
            f"Parameter {name!r} of @main is {_written(declared)}, "
            f"which the shape given for it, {list(given)}, does not fit."
        )
    return TensorType(tuple(given), declared.dtype)


def _check_params(main: Function, types: Mapping[Var, Type], params: Arrays) -> None:
    """Raise RelayError with all mismatches between values and parameters."""
    named: dict[str, list[Var]] = {}
    for var in main.params:
        named.setdefault(var.name, []).append(var)
    wrong = [f"there is no parameter {name!r}" for name in params if name not in named]
    for name, value in params.items():
        for var in named.get(name, []):
            wanted = types[var]
            if wanted != TensorType(value.shape, str(value.dtype)):
                written = _written(TensorType(value.shape, str(value.dtype)))
                wrong.append(f"{name!r} is {_written(wanted)}, not {written}")
    wrong += [f"two are called {name!r}" for name in params if len(named.get(name, ())) > 1]
    if wrong:
        raise RelayError(f"These values do not fit the parameters of @main: {'; '.join(wrong)}.")


def _written(value: Type) -> str:
    """Return a type as text for messages."""
    if isinstance(value, TensorType):
        sizes = ", ".join("?" if size is None else str(size) for size in value.shape)
        return f"{value.dtype} [{sizes}]"
    return "a tuple" if isinstance(value, TupleType) else "a function"


def _relax_type(value: Type) -> relax.Type:
    if isinstance(value, TupleType):
        return relax.TupleType([_relax_type(t) for t in value.fields])
    assert isinstance(value, TensorType), "a parameter is a tensor, or a tuple of them"
    return relax.TensorType(value.shape, value.dtype)


def _taken_apart(bindings: Bindings, value: relax.Expr) -> Value:
    if not isinstance(value.ty, relax.TupleType):
        return value
    fields = range(len(value.ty.fields))
    where = "A parameter of @main"
    parts = (bindings.add(relax.TupleGetItem(value, i), where) for i in fields)
    return tuple(_taken_apart(bindings, part) for part in parts)


def _put_together(value: Value) -> relax.Expr:
    return relax.Tuple([_put_together(v) for v in value]) if isinstance(value, tuple) else value


def _evaluator(module: Module, bindings: Bindings, budget: Budget) -> Evaluator:
    def call_operator(call: Call, arguments: Sequence[Value]) -> Value:
        assert isinstance(call.callee, Operator), "functions are taken apart before"
        name = call.callee.name
        where = name if call.line is None else f"{name} (line {call.line})"
        emit = Emitter(bindings, where, RelayError)
        value = apply(name, emit, arguments, call.attrs)
        if call.type is not None:
            _check_type(emit, value, call.type)
        return value

    return Evaluator(module, call_operator, constant, _truth, budget)


def _truth(value: Any) -> bool | None:
    array = constant_array(value) if isinstance(value, relax.Expr) else None
    return bool(array.reshape(-1)[0]) if array is not None and array.size == 1 else None


def _check_type(emit: Emitter, value: Value, wanted: Type) -> None:
    """Raise RelayError unless ``value`` has the type that Relay annotated."""
    if isinstance(wanted, TupleType) and isinstance(value, tuple):
        if len(wanted.fields) == len(value):
            for part, of in zip(value, wanted.fields, strict=True):
                _check_type(emit, part, of)
            return
    elif isinstance(wanted, TensorType) and not isinstance(value, tuple):
        found = TensorType(shape_of(value), dtype_of(value))
        if not _fits(found, wanted):
            raise emit.error(f"gives {_written(found)}, but is annotated as {_written(wanted)}.")
        return
    raise emit.error("does not give as many results as annotated.")


def _fits(found: TensorType, wanted: TensorType) -> bool:
    """Return whether a type equals another one where that is known."""
    same_rank = len(found.shape) == len(wanted.shape)
    sizes = zip(found.shape, wanted.shape, strict=False)
    return found.dtype == wanted.dtype and same_rank and all(w in (None, f) for f, w in sizes)
