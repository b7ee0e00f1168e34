# SPDX-License-Identifier: Apache-2.0
"""Results of a function that are returned as a tuple."""

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
