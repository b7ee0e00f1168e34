# SPDX-License-Identifier: Apache-2.0
"""A hash of what a network computes, without its weights: identifies what a schedule is made for.

Each operator is written as its bindings in order: the operation, its attributes, the types, and the
value of each operand. Values are named by the operator that computes them and their position among
its results. Inputs of the network are numbered in the order in which they are read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import tvm
from tvm import relax

from .operators import Operator, OperatorGraph

_VERSION = "2:"


def fingerprint(graph: OperatorGraph) -> str:
    """Return the hash of a graph, prefixed with the version of the hash."""
    names = _Names(graph)
    lines = [line for op in graph.operators for line in _lines(op, names)]
    return _VERSION + _hash(lines)


def fits(known: str, graph: OperatorGraph) -> bool:
    """Return whether a fingerprint, of this version or the one before, is that of a graph."""
    if known.startswith(_VERSION):
        return known == fingerprint(graph)
    return known == _without_operands(graph)


def _without_operands(graph: OperatorGraph) -> str:
    """Return the fingerprint of the first version, which ignores the order of operands."""
    lines = [operator.signature for operator in graph.operators]
    return _hash([*lines, *(f"{u}>{v}" for u, v in graph.edges)])


def _hash(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


class _Names:
    """The names of the variables of a graph."""

    def __init__(self, graph: OperatorGraph) -> None:
        self._names: dict[relax.Var, str] = {}
        for op in graph.operators:
            for number, binding in enumerate(op.bindings):
                self._names[binding.var] = f"v{op.index}.{number}"
        self._inputs = 0

    def __getitem__(self, variable: relax.Var) -> str:
        if variable not in self._names:
            self._names[variable] = f"x{self._inputs} {variable.ty}"
            self._inputs += 1
        return self._names[variable]


def _lines(op: Operator, names: _Names) -> Iterator[str]:
    yield f"{op.index} {op.kind} {op.epilogue}"
    for binding in op.bindings:
        value = binding.value
        operation = f"{value.op} {value.attrs}" if isinstance(value, relax.Call) else ""
        operands = ", ".join(_operands(value, names))
        yield f"{names[binding.var]} {binding.var.ty} = {operation}({operands})"


def _operands(expr: relax.Expr, names: _Names) -> Iterator[str]:
    """Yield what an expression reads, in order, with repetitions."""
    if isinstance(expr, relax.Var):
        yield names[expr]
    elif isinstance(expr, relax.Call):
        for argument in expr.args:
            yield from _operands(argument, names)
    elif isinstance(expr, relax.Tuple):
        yield "tuple"
        for item in expr.fields:
            yield from _operands(item, names)
    elif isinstance(expr, relax.TupleGetItem):
        yield f"item {expr.index}"
        yield from _operands(expr.tuple_value, names)
    elif isinstance(expr, tvm.ir.GenericConst):
        yield f"constant {expr.ty}"
    elif isinstance(expr, relax.If | relax.SeqExpr | relax.Function):
        yield type(expr).__name__  # its text would contain names that importers generate
        yield from (names[variable] for variable in relax.analysis.free_vars(expr))
    else:
        yield str(expr)
