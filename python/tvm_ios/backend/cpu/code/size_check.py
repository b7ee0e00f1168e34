# SPDX-License-Identifier: Apache-2.0
"""The refusal of sizes that a network's code is not right for."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from ....ops.tensor import TensorSpec
from ....sizes.size import LARGEST_SIZE, OpenSizes, Size, size_of
from ....sizes.text import requirements
from .region import Region

_NAME = "tvm_ios_sizes_of_"


def check_sizes(opened: OpenSizes, counts: Iterable[Size]) -> None:
    """Emit the checks of open sizes: of their bounds, and of what was assumed of them.

    Parameters
    ----------
    opened : OpenSizes
    counts : iterable of Size
        The numbers of elements of tensors, which must not be too large.
    """
    for condition, sentence in requirements(opened):
        _require(condition, sentence)
    for count in counts:
        fits = _bound(count.expr) <= T.float64(LARGEST_SIZE)
        _require(fits, f"A tensor of {count} elements is too large.")


def counts_of_region(region: Region) -> list[Size]:
    """Return the numbers of elements of a region's tensors that depend on open sizes."""
    implementations = [i for stage in region.stages for i in stage.implementations]
    return _open_ones(spec for i in implementations for spec in i.kernel.tensors)


def size_check(name: str, function: relax.Function, opened: OpenSizes) -> tirx.PrimFunc:
    """Return a function of the open sizes of a network that refuses those that do not fit.

    What is computed before a driver runs, and the memory that it writes to, depends on them too.
    """
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(name)
        for variable in opened.variables:
            T.arg(variable.name, variable)
        check_sizes(opened, _open_ones(_specs(function)))
        T.evaluate(0)
    return builder.get()


def name_of_check(function: str) -> str:
    """Return the name of the function that checks the sizes of a network."""
    return _NAME + function


def checked_sizes(name: str, opened: OpenSizes) -> relax.Expr:
    """Return a call of what :func:`size_check` returns."""
    sizes = [relax.prim_value(variable) for variable in opened.variables]
    return relax.Call(relax.ExternFunc(name), sizes, None, [relax.TupleType([])])


def checks_sizes(value: relax.Expr) -> bool:
    """Return whether an expression is a call that :func:`checked_sizes` returned."""
    called = value.op if isinstance(value, relax.Call) else None
    return isinstance(called, relax.ExternFunc) and called.global_symbol.startswith(_NAME)


def _require(condition: Any, sentence: str) -> None:
    with T.Assert(condition, sentence, "ValueError"):
        pass


def _specs(function: relax.Function) -> Iterable[TensorSpec]:
    """Return the tensors of a function whose shapes are known."""
    bindings = (binding for block in function.body.blocks for binding in block.bindings)
    for variable in (*function.params, *(binding.var for binding in bindings)):
        for ty in _tensors(variable.ty):
            if isinstance(ty.shape, relax.ShapeExpr):
                yield TensorSpec(tuple(map(size_of, ty.shape.values)), str(ty.dtype))


def _tensors(ty: tvm.ir.Type) -> Iterable[relax.TensorType]:
    if isinstance(ty, relax.TensorType):
        yield ty
    elif isinstance(ty, relax.TupleType):
        for field in ty.fields:
            yield from _tensors(field)


def _open_ones(specs: Iterable[TensorSpec]) -> list[Size]:
    counts = dict.fromkeys(math.prod(spec.shape) for spec in specs)
    return [count for count in counts if isinstance(count, Size)]


def _bound(expr: Any) -> Any:
    """Return a bound of a size in double precision: in 64 bits, a product may start again at 0."""
    if isinstance(expr, tvm.ir.Var | tirx.IntImm):
        return T.Cast("float64", expr)
    a, b = _bound(expr.a), _bound(expr.b)
    kinds = {
        tirx.Add: lambda: a + b,
        tirx.Sub: lambda: a - b,
        tirx.Mul: lambda: a * b,
        tirx.FloorDiv: lambda: a / b,
        tirx.FloorMod: lambda: b,
        tirx.Min: lambda: T.min(a, b),
        tirx.Max: lambda: T.max(a, b),
    }
    return kinds[type(expr)]()
