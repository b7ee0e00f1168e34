# SPDX-License-Identifier: Apache-2.0
"""What has to hold in every module, whichever form it was saved in."""

from __future__ import annotations

from ..errors import RelayError
from .ast import Call, Expr, Function, FuncType, If, Let, Module, TupleType, Type, Var
from .cursor import MAX_NESTING
from .walk import parts, postorder


def check_module(module: Module) -> None:
    """Check that variables are used where they are bound, and that nothing nests too deep.

    Raises
    ------
    RelayError
        Naming the function, and the variable.
    """
    for name, function in module.functions.items():
        _check_variables(name, function)
        _check_nesting(name, function)


def _check_variables(name: str, function: Function) -> None:
    """Check that a function has no variables but its own."""
    bits: dict[Var, int] = {}
    bound: set[Var] = set()
    free: dict[Expr, int] = {}  # the variables that an expression does not bind itself, as bits

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
    if free[function]:
        var = next(var for var, bit in bits.items() if bit & free[function])
        raise RelayError(f"%{var.name} is used in @{name} where it is not bound.")


def _check_nesting(name: str, function: Function) -> None:
    """Check that what recurses into scopes or types can do so."""
    levels: dict[Expr, int] = {}
    for expr in postorder(function):
        within = [levels[part] + _nests(expr, part) for part in parts(expr)]
        levels[expr] = max(within, default=0)
        if levels[expr] > MAX_NESTING or any(_deep(type_) for type_ in _types(expr)):
            raise RelayError(f"@{name} nests deeper than {MAX_NESTING} levels.")


def _nests(expr: Expr, part: Expr) -> bool:
    """Whether a part is a scope within an expression; one let follows another in one scope."""
    if isinstance(expr, Let):
        return isinstance(part, Let) and part is not expr.body
    return isinstance(expr, If | Function) or isinstance(part, Let)


def _types(expr: Expr) -> tuple[Type | None, ...]:
    """What an expression says of types."""
    if isinstance(expr, Call):
        return (expr.type,)
    if isinstance(expr, Let):
        return (expr.var.type,)
    if isinstance(expr, Function):
        return (expr.result, *(var.type for var in expr.params))
    return ()


def _deep(type_: Type | None) -> bool:
    """Whether a type nests deeper than what is read."""
    level = [type_]
    for _ in range(MAX_NESTING):
        level = [part for outer in level for part in _inner(outer)]
        if not level:
            return False
    return True


def _inner(type_: Type | None) -> tuple[Type, ...]:
    if isinstance(type_, TupleType):
        return type_.fields
    if isinstance(type_, FuncType):
        return (*type_.params, type_.result)
    return ()
