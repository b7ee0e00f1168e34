# SPDX-License-Identifier: Apache-2.0
"""Checks of modules that do not depend on the form in which they were saved."""

from __future__ import annotations

from ..support.errors import RelayError
from .ast import Call, Expr, Function, If, Let, Module, Type, Var
from .budget import Budget
from .cursor import MAX_NESTING
from .extent import Extents
from .walk import parts, postorder

_BITS = 512  # of a set of variables, which count as one part


def check_module(module: Module, budget: Budget | None = None) -> None:
    """Check that variables are used in their scope, and that nesting and size are limited.

    Parameters
    ----------
    module : Module
        The module.
    budget : Budget, optional
        The limits; by default those for the number of expressions.

    Raises
    ------
    RelayError
        If a check fails; the message names the function and the variable.
    """
    extents = Extents()
    if budget is None:
        functions = module.functions.values()
        expressions = {expr for function in functions for expr in postorder(function)}
        budget = Budget.of_network(len(expressions), 0)
    for name, function in module.functions.items():
        _check_extent(name, function, extents, budget)
        _check_variables(name, function, budget)
        _check_nesting(name, function)


def _check_extent(name: str, function: Function, extents: Extents, budget: Budget) -> None:
    """Check that a function can be expanded within the limits, and that its types are not deep."""
    for expr in postorder(function):
        size = 1 + len(parts(expr))
        for type_ in _types(expr):
            extent = extents.of_type(type_)
            if extent.depth > MAX_NESTING:
                raise RelayError(f"@{name} nests deeper than {MAX_NESTING} levels.")
            size += extent.size
        if isinstance(expr, Call | Function):
            size += sum(extents.of_attribute(value).size for value in expr.attrs.values())
        budget.spend("parts", size, f"@{name}")


def _check_variables(name: str, function: Function, budget: Budget) -> None:
    """Check that a function has no free variables."""
    bits: dict[Var, int] = {}
    bound: set[Var] = set()
    free: dict[Expr, int] = {}  # the free variables of each expression, as bits

    def bind(var: Var) -> int:
        if var in bound:
            raise RelayError(f"%{var.name} is bound twice in @{name}; the module is damaged.")
        bound.add(var)
        return bit(var)

    def bit(var: Var) -> int:
        return bits.setdefault(var, 1 << len(bits))

    for expr in postorder(function):
        if isinstance(expr, Var):
            free[expr] = bit(expr)
        elif isinstance(expr, Let):
            free[expr] = free[expr.value] | (free[expr.body] & ~bind(expr.var))
        else:
            free[expr] = 0
            for part in parts(expr):
                free[expr] |= free[part]
            if isinstance(expr, Function):
                for var in expr.params:
                    free[expr] &= ~bind(var)
        budget.spend("parts", free[expr].bit_length() // _BITS, f"@{name}")
    if free[function]:
        var = next(var for var, bit in bits.items() if bit & free[function])
        raise RelayError(f"%{var.name} is used in @{name} where it is not bound.")


def _check_nesting(name: str, function: Function) -> None:
    """Check that scopes do not nest too deeply for recursion."""
    levels: dict[Expr, int] = {}
    for expr in postorder(function):
        within = [levels[part] + _nests(expr, part) for part in parts(expr)]
        levels[expr] = max(within, default=0)
        if levels[expr] > MAX_NESTING:
            raise RelayError(f"@{name} nests deeper than {MAX_NESTING} levels.")


def _nests(expr: Expr, part: Expr) -> bool:
    """Return whether a part is a scope of its own; consecutive lets share one scope."""
    if isinstance(expr, Let):
        return isinstance(part, Let) and part is not expr.body
    return isinstance(expr, If | Function) or isinstance(part, Let)


def _types(expr: Expr) -> tuple[Type | None, ...]:
    """Return the type annotations of an expression."""
    if isinstance(expr, Call):
        return (expr.type,)
    if isinstance(expr, Let):
        return (expr.var.type,)
    if isinstance(expr, Function):
        return (expr.result, *(var.type for var in expr.params))
    return ()
