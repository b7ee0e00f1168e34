# SPDX-License-Identifier: Apache-2.0
"""Results of a function: those returned as a tuple, and those that nothing computes."""

from __future__ import annotations

from collections import defaultdict

import tvm
import tvm_ffi
from tvm import relax


def inline_returned_tuple(_mod: tvm.IRModule, function: relax.Function) -> relax.Function:
    """Return the function with the tuples of its result written where it returns them.

    A bound tuple would be an operator of its own, which is left to TVM, and which separates the
    operators before it from those after it.
    """
    bindings = [b for block in function.body.blocks for b in block.bindings]
    tuples = {
        b.var: b.value
        for b in bindings
        if isinstance(b, relax.VarBinding) and isinstance(b.value, relax.Tuple)
    }
    readers: defaultdict[relax.Var, set[relax.Var]] = defaultdict(set)
    for binding in bindings:
        for variable in relax.analysis.free_vars(binding.value):
            readers[variable].add(binding.var)
    inlined: set[relax.Var] = set()

    def inline(result: relax.Expr) -> relax.Expr:
        if isinstance(result, relax.Tuple):
            return relax.Tuple(list(map(inline, result.fields)))
        if result not in tuples or not readers[result] <= inlined:
            return result
        inlined.add(result)
        return inline(tuples[result])

    result = inline(function.body.body)
    if len(inlined) in (0, len(bindings)):  # a function without operators cannot be scheduled
        return function
    returned = relax.analysis.free_vars(result)
    outer = {
        v: relax.Var(v.name, v.ty) for v in returned if isinstance(v, relax.DataflowVar)
    }  # which are visible after their block
    rename = [(relax.Var, lambda variable: outer.get(variable, variable))]
    kept = [[b for b in block.bindings if b.var not in inlined] for block in function.body.blocks]
    blocks = [
        type(block)([tvm_ffi.structural_map(binding, rename) for binding in own])
        for block, own in zip(function.body.blocks, kept, strict=True)
    ]
    body = relax.SeqExpr(blocks, tvm_ffi.structural_map(result, rename))
    return relax.Function(function.params, body, function.ret_ty, function.is_pure, function.attrs)


def copy_bare_results(_mod: tvm.IRModule, function: relax.Function) -> relax.Function:
    """Return a function that has operators: one without copies its results.

    Its results are inputs and constants.
    """
    bindings = (b for block in function.body.blocks for b in block.bindings)
    if any(isinstance(b.value, relax.Call) for b in bindings):
        return function
    builder = relax.BlockBuilder()
    copies: list[relax.VarBinding] = []

    def copied(result: relax.Expr) -> relax.Expr:
        if isinstance(result.ty, relax.TupleType):
            if isinstance(result, relax.Tuple):
                return relax.Tuple([copied(field) for field in result.fields])
            return result
        dtype = str(result.ty.dtype)
        one = relax.const(dtype != "bool", dtype)
        operator = relax.op.logical_or if dtype == "bool" else relax.op.multiply
        call = builder.normalize(operator(result, one))
        copies.append(relax.VarBinding(relax.Var("copy", call.ty), call))
        return copies[-1].var

    result = copied(_value_of(function))
    body = relax.SeqExpr([relax.DataflowBlock(copies)], result)
    return relax.Function(function.params, body, function.ret_ty, function.is_pure, function.attrs)


def _value_of(function: relax.Function) -> relax.Expr:
    """Return the result of a function without operators, with the names of values looked up."""
    bound = {b.var: b.value for block in function.body.blocks for b in block.bindings}

    def value(expr: relax.Expr) -> relax.Expr:
        while expr in bound:
            expr = bound[expr]
        return (
            relax.Tuple([value(f) for f in expr.fields]) if isinstance(expr, relax.Tuple) else expr
        )

    return value(function.body.body)
