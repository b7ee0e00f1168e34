# SPDX-License-Identifier: Apache-2.0
"""Folding of the constants that NumPy has left, by TVM."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import tvm
import tvm_ffi
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..relax_ir.functions import bindings_of

_OF_SHAPES = ("relax.full_like", "relax.ones_like", "relax.zeros_like")
_FOLDED = "tvm_ios_known"


@tvm.transform.module_pass(opt_level=0, name="tvm_ios.fold_the_rest")
def fold_the_rest(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
    """Run TVM's ``FoldConstant`` on what may be constant: it lowers all operators that it sees."""
    result = mod
    for variable, function in mod.functions.items():
        if not isinstance(function, relax.Function):
            continue
        folded = _folded(mod, _known(function))
        if folded:
            result = result.clone() if result.same_as(mod) else result
            result.update_func(variable, _Replacer(mod, folded).visit_expr(function))
    return result


def _known(function: relax.Function) -> dict[relax.Var, relax.Expr]:
    """Return what may be constant of a function's bindings, in order; nothing without calls."""
    known: dict[relax.Var, relax.Expr] = {}
    for variable, value in bindings_of(function).items():
        if _is_known(value, known):
            known[variable] = value
    return known if any(isinstance(value, relax.Call) for value in known.values()) else {}


def _is_known(value: relax.Expr, known: Collection[relax.Var]) -> bool:
    """Return whether a value may be constant: its operands are, or only their shapes count."""
    if not isinstance(value, relax.Call):
        return not _varies(value, known)
    if not isinstance(value.op, tvm.ir.Op):
        return False
    if value.op.name in _OF_SHAPES:
        return True
    kinds = relax.TensorType | relax.TupleType
    return not any(isinstance(a.ty, kinds) and _varies(a, known) for a in value.args)


def _varies(expr: relax.Expr, known: Collection[relax.Var]) -> bool:
    if isinstance(expr, relax.Tuple):
        return any(_varies(field, known) for field in expr.fields)
    if isinstance(expr, relax.TupleGetItem):
        return _varies(expr.tuple_value, known)
    return not isinstance(expr, tvm.ir.GenericConst) and expr not in known


def _folded(
    mod: tvm.IRModule, known: Mapping[relax.Var, relax.Expr]
) -> dict[relax.Var, tvm.ir.GenericConst]:
    """Return the constants that calls compute, as a function of their own returns them."""
    if not known:
        return {}
    new = {variable: relax.Var(variable.name, variable.ty) for variable in known}
    read = {v for value in known.values() for v in relax.analysis.free_vars(value)} - known.keys()
    parameters = {variable: relax.Var(variable.name, variable.ty) for variable in read}
    renamed = new | parameters
    lookup = [(relax.Var, lambda variable: renamed.get(variable, variable))]
    bindings = [
        relax.VarBinding(new[variable], tvm_ffi.structural_map(value, lookup))
        for variable, value in known.items()
    ]
    calls = [variable for variable, value in known.items() if isinstance(value, relax.Call)]
    body = relax.SeqExpr(
        [relax.DataflowBlock(bindings)], relax.Tuple([new[variable] for variable in calls])
    )
    kind = relax.TupleType([variable.ty for variable in calls])
    function = relax.Function([*parameters.values()], body, kind)
    function = function.with_attr("global_symbol", _FOLDED)
    functions = {v: f for v, f in mod.functions.items() if not isinstance(f, relax.Function)}
    small = tvm.IRModule({tvm.ir.GlobalVar(_FOLDED): function, **functions})
    folded = relax.transform.FoldConstant()(relax.transform.Normalize()(small))[_FOLDED]
    values = bindings_of(folded)
    results = [values.get(result, result) for result in folded.body.body.fields]
    return {
        variable: result
        for variable, result in zip(calls, results, strict=True)
        if isinstance(result, tvm.ir.GenericConst)
    }


@mutator
class _Replacer(PyExprMutator):
    """A mutator that puts constants in the place of variables."""

    def __init__(
        self, mod: tvm.IRModule, constants: Mapping[relax.Var, tvm.ir.GenericConst]
    ) -> None:
        super().__init__(mod)
        self._constants = constants

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        """Leave out the binding of a constant, unless its block exports the variable."""
        constant = self._constants.get(binding.var)
        if constant is None:
            super().visit_var_binding_(binding)
        elif not isinstance(binding.var, relax.DataflowVar):
            super().visit_var_binding_(relax.VarBinding(binding.var, constant))

    def visit_dataflow_var_(self, var: relax.DataflowVar) -> relax.Expr:
        constant = self._constants.get(var)
        return super().visit_dataflow_var_(var) if constant is None else constant
