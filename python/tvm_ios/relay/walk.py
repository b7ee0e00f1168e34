# SPDX-License-Identifier: Apache-2.0
"""Traversals of a graph of expressions, without recursion, because networks are deep."""

from __future__ import annotations

from collections.abc import Iterator

from .ast import Call, Expr, Function, If, Let, Tuple, TupleGetItem


def operands(expr: Expr) -> tuple[Expr, ...]:
    """Return the expressions that an expression uses in its own scope."""
    if isinstance(expr, Call):
        return (expr.callee, *expr.args)
    if isinstance(expr, Tuple):
        return expr.fields
    if isinstance(expr, TupleGetItem):
        return (expr.tuple_value,)
    return ()


def parts(expr: Expr) -> tuple[Expr, ...]:
    """Return all subexpressions of an expression, without the variables that it binds."""
    if isinstance(expr, Let):
        return (expr.value, expr.body)
    if isinstance(expr, If):
        return (expr.condition, expr.then, expr.otherwise)
    if isinstance(expr, Function):
        return (expr.body,)
    return operands(expr)


def postorder(root: Expr) -> Iterator[Expr]:
    """Yield each expression of a graph once, after its parts."""
    done: set[Expr] = set()
    stack = [(root, False)]
    while stack:
        expr, entered = stack.pop()
        if expr in done:
            continue
        if entered:
            done.add(expr)
            yield expr
        else:
            stack.append((expr, True))
            stack.extend((part, False) for part in reversed(parts(expr)) if part not in done)
