# SPDX-License-Identifier: Apache-2.0
"""Values as polynomials, by which a formula is known in whatever order it is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from tvm import relax

from ..relax_ir.constants import constant_array, scalar_constant
from ..relax_ir.expressions import op_name
from .matching import Matcher

Monomial = tuple[tuple[str, int], ...]
"""The powers of atoms, in the order of their names."""

Polynomial = Mapping[Monomial, np.ndarray]
"""The factor of each monomial: constants that broadcast to the shape of the value."""

Atoms = Callable[[relax.Expr, relax.Expr], "Polynomial | None"]
"""Returns what a variable, bound to a value, is in terms of atoms; None if they do not say."""

_ACCURACY = 2e-6  # relative, of numbers that exporters and their formulas round to float32
_MOST_VALUES = 64  # of one formula
_MOST_TERMS = 16
_POWERS = (2.0, 3.0)
_ONE = np.ones((), "float64")


def atom(name: str, power: int = 1) -> Polynomial:
    return {((name, power),): _ONE}


class Polynomials:
    """Reads values as polynomials of atoms.

    Parameters
    ----------
    matcher : Matcher
    atoms : Callable
    """

    def __init__(self, matcher: Matcher, atoms: Atoms) -> None:
        self._matcher, self._atoms = matcher, atoms
        self._known: dict[relax.Expr, Polynomial | None] = {}

    def of(self, expr: relax.Expr) -> Polynomial | None:
        """Return a value as a polynomial; None if it is none, or a long one."""
        if expr not in self._known:
            if len(self._known) == _MOST_VALUES:
                return None
            self._known[expr] = None
            found = self._read(expr)
            self._known[expr] = found if found is None or len(found) <= _MOST_TERMS else None
        return self._known[expr]

    def _read(self, expr: relax.Expr) -> Polynomial | None:
        array = constant_array(expr)
        if array is not None:
            return {(): array.astype("float64")} if array.dtype == np.float32 else None
        value = self._matcher.value(expr)
        found = self._atoms(expr, value)
        name = op_name(value)
        if found is not None or name not in _OPERATIONS:
            return found
        if name == "power":
            power = scalar_constant(value.args[1])
            base = self.of(value.args[0]) if power in _POWERS else None
            return None if base is None or power is None else _power(base, int(power))
        operands = [self.of(operand) for operand in value.args]
        known = [operand for operand in operands if operand is not None]
        return _OPERATIONS[name](*known) if len(known) == len(operands) else None


def is_near(found: Polynomial, wanted: Mapping[Monomial, float]) -> bool:
    """Return whether a polynomial has these numbers as factors, but for rounding."""
    return found.keys() == wanted.keys() and all(
        is_close(found[monomial], factor) for monomial, factor in wanted.items()
    )


def is_close(value: np.ndarray, wanted: np.ndarray | float) -> bool:
    """Return whether numbers are the same but for rounding."""
    return bool(np.allclose(value, wanted, rtol=_ACCURACY, atol=0))


def below(
    matcher: Matcher, expr: relax.Expr, names: frozenset[str], depth: int
) -> Iterator[relax.Expr]:
    """Yield an expression and what it is made of by operators of some names, nearest first."""
    seen: set[relax.Expr] = set()
    level = [expr]
    for _ in range(depth):
        level = [found for found in dict.fromkeys(level) if found not in seen]
        seen.update(level)
        yield from level
        if len(seen) > _MOST_VALUES:
            return
        values = map(matcher.value, level)
        level = [operand for v in values if op_name(v) in names for operand in v.args]


def scaled(polynomial: Polynomial, factor: float) -> Polynomial:
    return {monomial: value * factor for monomial, value in polynomial.items()}


def _sum(left: Polynomial, right: Polynomial) -> Polynomial:
    total = dict(left)
    for monomial, factor in right.items():
        total[monomial] = total[monomial] + factor if monomial in total else factor
    return total


def _difference(left: Polynomial, right: Polynomial) -> Polynomial:
    return _sum(left, scaled(right, -1.0))


def _product(left: Polynomial, right: Polynomial) -> Polynomial:
    total: dict[Monomial, np.ndarray] = {}
    for a, first in left.items():
        for b, second in right.items():
            total = {**_sum(total, {_joined(a, b): first * second})}
    return total


def _joined(left: Monomial, right: Monomial) -> Monomial:
    powers = dict(left)
    for name, power in right:
        powers[name] = powers.get(name, 0) + power
    return tuple(sorted((name, power) for name, power in powers.items() if power))


def _quotient(left: Polynomial, right: Polynomial) -> Polynomial | None:
    """Return a quotient by a single term."""
    if len(right) != 1:
        return None
    ((monomial, factor),) = right.items()
    if not np.all(factor):
        return None
    return _product(left, {tuple((name, -power) for name, power in monomial): 1 / factor})


def _power(base: Polynomial, power: int) -> Polynomial:
    result = base
    for _ in range(power - 1):
        result = _product(result, base)
    return result


_OPERATIONS: dict[str, Callable[..., Polynomial | None]] = {
    "add": _sum,
    "subtract": _difference,
    "multiply": _product,
    "divide": _quotient,
    "negative": lambda value: scaled(value, -1.0),
    "square": lambda value: _power(value, 2),
    "power": _power,
}

ARITHMETIC = frozenset(_OPERATIONS)
"""The operators that a polynomial is computed by."""
