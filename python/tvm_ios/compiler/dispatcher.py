# SPDX-License-Identifier: Apache-2.0
"""The function of a library that calls another one, by the shapes of its arguments.

Programs that load a library by TVM alone call ``main`` with any shape that the library has a
function for. ``tvm_ios_runtime`` calls these functions directly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tvm
from tvm import relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from ..relax_ir.building import building
from ..relax_ir.expressions import is_static, static_shape


def with_dispatcher(mod: tvm.IRModule, name: str, functions: Sequence[str]) -> tvm.IRModule:
    """Return the module with a function ``name`` that calls one of several others.

    Parameters
    ----------
    mod : tvm.IRModule
    name : str
    functions : sequence of str
        Functions whose parameters have the same types and ranks. All have static shapes, but for
        the last one, which may serve all other shapes.
    """
    result = mod.clone()
    general = None
    if not all(map(is_static, mod[functions[-1]].params)):
        *functions, general = functions
    tests = [f"tvm_ios_{name}_takes_{number}" for number in range(len(functions))]
    shapes = [_shapes(mod[function]) for function in functions]
    dtypes = [str(p.ty.dtype) for p in mod[general or functions[0]].params]
    for test, shape in zip(tests, shapes, strict=True):
        result.update_func(tvm.ir.GlobalVar(test), _test(test, shape, dtypes))
    choices = [*zip(tests, functions, strict=True)]
    if general is not None:
        dispatcher = _dispatcher(result, name, choices, general, _call_of(result, general))
    else:
        check = f"tvm_ios_{name}_check"
        result.update_func(tvm.ir.GlobalVar(check), _check(check, shapes, dtypes))
        otherwise = _checked(result, functions[-1], check)
        dispatcher = _dispatcher(result, name, choices[:-1], functions[-1], otherwise)
    result.update_func(tvm.ir.GlobalVar(name), dispatcher)
    return result


Shapes = list[tuple[int, ...]]


def _shapes(function: relax.Function) -> Shapes:
    return [static_shape(parameter, "an input") for parameter in function.params]


def _test(name: str, shapes: Shapes, dtypes: Sequence[str]) -> tirx.PrimFunc:
    """Build a function that returns whether its arguments have these shapes."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(name)
        equal = _equal(_arguments(shapes, dtypes), shapes)
        T.func_ret(tvm.ir.PrimType("int32"))
        T.Return(tirx.Select(equal, tirx.const(1, "int32"), tirx.const(0, "int32")))
    return builder.get()


def _check(name: str, choices: Sequence[Shapes], dtypes: Sequence[str]) -> tirx.PrimFunc:
    """Build a function that raises an error if its arguments have none of several shapes."""
    known = " or ".join(", ".join(map(str, map(list, shapes))) for shapes in choices)
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(name)
        sizes = _arguments(choices[0], dtypes)
        equal = tirx.const(False, "bool")
        for shapes in choices:
            equal = tirx.any(equal, _equal(sizes, shapes))
        with T.Assert(equal, f"The library was compiled for inputs of the shapes {known}."):
            T.evaluate(tirx.const(0, "int32"))
    return builder.get()


def _arguments(shapes: Shapes, dtypes: Sequence[str]) -> list[list[tirx.Var]]:
    """Declare tensors of any size as arguments; return their sizes."""
    sizes = [[tirx.Var(f"n{i}_{k}", "int64") for k in range(len(s))] for i, s in enumerate(shapes)]
    for number, (shape, dtype) in enumerate(zip(sizes, dtypes, strict=True)):
        T.arg(f"t{number}", T.buffer(shape, dtype, layout=None))
    return sizes


def _equal(sizes: Sequence[Sequence[tirx.Var]], shapes: Shapes) -> tirx.PrimExpr:
    equal = tirx.const(True, "bool")
    for variables, shape in zip(sizes, shapes, strict=True):
        for variable, size in zip(variables, shape, strict=True):
            equal = tirx.all(equal, variable == size)
    return equal


Otherwise = Callable[[Sequence[relax.Var]], relax.Expr]
"""What is done with arguments that no test takes."""


def _checked(mod: tvm.IRModule, function: str, check: str) -> Otherwise:
    """Return what calls a function after a check of the arguments."""

    def call(arguments: Sequence[relax.Var]) -> relax.Expr:
        checked = _packed(check, arguments, _NOTHING)
        first = relax.VarBinding(relax.Var("checked", _NOTHING), checked)
        return _sequence([first, *_call(mod, function, arguments)])

    return call


def _call_of(mod: tvm.IRModule, function: str) -> Otherwise:
    return lambda arguments: _sequence(_call(mod, function, arguments))


def _dispatcher(
    mod: tvm.IRModule,
    name: str,
    choices: Sequence[tuple[str, str]],
    last: str,
    otherwise: Otherwise,
) -> relax.Function:
    """Build the function: an ``if`` for each test and the function to call where it holds."""
    original = mod[last]
    parameters = [
        relax.Var(p.name, relax.TensorType(ndim=p.ty.ndim, dtype=p.ty.dtype))
        for p in original.params
    ]
    body = otherwise(parameters)
    for test, function in reversed(choices):
        fits = relax.Var("fits", _NUMBER)
        chosen = relax.If(fits, _sequence(_call(mod, function, parameters)), body)
        asked = relax.VarBinding(fits, _packed(test, parameters, _NUMBER))
        body = _sequence([asked, relax.VarBinding(relax.Var("result"), chosen)])
    builder = relax.BlockBuilder(mod)
    opened = builder.function(name, parameters, {"global_symbol": name}, pure=False)
    with building(), opened:
        builder.emit_func_output(builder.normalize(body))
    return builder.finalize()[name]


_NOTHING, _NUMBER = relax.TupleType([]), tvm.ir.PrimType("int64")


def _packed(name: str, arguments: Sequence[relax.Expr], ty: relax.Type) -> relax.Call:
    """Return a call of a function of the library."""
    return relax.Call(relax.ExternFunc(name), arguments, None, [ty])


def _call(mod: tvm.IRModule, name: str, arguments: Sequence[relax.Var]) -> list[relax.Binding]:
    """Return bindings of arguments as tensors of a function's shapes, and of its result."""
    variable, parameters = mod.get_global_var(name), mod[name].params
    relax.expr._update_type(variable, mod[name].ty)
    cast = [relax.Var(p.name, p.ty) for p in parameters]
    bindings = [relax.MatchCast(v, a, v.ty) for v, a in zip(cast, arguments, strict=True)]
    return [*bindings, relax.VarBinding(relax.Var("result"), relax.Call(variable, cast))]


def _sequence(bindings: Sequence[relax.Binding]) -> relax.SeqExpr:
    """Return bindings as an expression, the value of the last one."""
    return relax.SeqExpr([relax.BindingBlock(bindings)], bindings[-1].var)
