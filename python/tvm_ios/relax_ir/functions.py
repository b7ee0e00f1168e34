# SPDX-License-Identifier: Apache-2.0
"""The functions of a module, and the bindings of a function."""

from __future__ import annotations

import tvm
from tvm import relax

from ..support.errors import ModelError


def relax_function(mod: tvm.IRModule, name: str) -> relax.Function:
    """Return the Relax function ``name`` of ``mod``."""
    functions = {gv.name_hint: f for gv, f in mod.functions.items()}
    relax_names = sorted(n for n, f in functions.items() if isinstance(f, relax.Function))
    if name not in relax_names:
        known = ", ".join(relax_names) or "none"
        raise ModelError(f"The module has no Relax function {name!r}; it has: {known}.")
    return functions[name]


def bindings_of(func: relax.Function) -> dict[relax.Var, relax.Expr]:
    """Return the value that each variable of the function's body is bound to."""
    return {
        binding.var: binding.value
        for block in func.body.blocks
        for binding in block.bindings
        if isinstance(binding, relax.VarBinding)
    }


def use_counts(func: relax.Function) -> dict[relax.Var, int]:
    """Count how often each variable is read."""
    counts: dict[relax.Var, int] = {}

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, relax.Var):
            counts[expr] = counts.get(expr, 0) + 1

    for value in bindings_of(func).values():
        relax.analysis.post_order_visit(value, visit)
    relax.analysis.post_order_visit(func.body.body, visit)
    return counts
