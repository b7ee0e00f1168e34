# SPDX-License-Identifier: Apache-2.0
"""Formulas of tensors, written with Python's operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tvm import relax

from ..node_emitter import NodeEmitter
from .cast import converted

Operand: TypeAlias = "Term | float"


class Term:
    """A tensor in a formula; numbers beside it have its type.

    Parameters
    ----------
    emit : NodeEmitter
    expr : relax.Expr
    """

    def __init__(self, emit: NodeEmitter, expr: relax.Expr) -> None:
        self.emit, self.expr = emit, expr

    def of(self, build: Callable[..., relax.Expr]) -> Term:
        """Return a function of each element."""
        return Term(self.emit, self.emit(build(self.expr)))

    def to(self, dtype: str) -> Term:
        return Term(self.emit, converted(self.emit, self.expr, dtype))

    def _expr(self, other: Operand) -> relax.Expr:
        return other.expr if isinstance(other, Term) else self.emit.scalar(other, self.expr)

    def _with(self, build: Callable[..., relax.Expr], other: Operand) -> Term:
        return Term(self.emit, self.emit(build(self.expr, self._expr(other))))

    def _from(self, build: Callable[..., relax.Expr], other: Operand) -> Term:
        return Term(self.emit, self.emit(build(self._expr(other), self.expr)))

    def __add__(self, other: Operand) -> Term:
        return self._with(relax.op.add, other)

    def __radd__(self, other: Operand) -> Term:
        return self._from(relax.op.add, other)

    def __sub__(self, other: Operand) -> Term:
        return self._with(relax.op.subtract, other)

    def __rsub__(self, other: Operand) -> Term:
        return self._from(relax.op.subtract, other)

    def __mul__(self, other: Operand) -> Term:
        return self._with(relax.op.multiply, other)

    def __rmul__(self, other: Operand) -> Term:
        return self._from(relax.op.multiply, other)

    def __truediv__(self, other: Operand) -> Term:
        return self._with(relax.op.divide, other)

    def __rtruediv__(self, other: Operand) -> Term:
        return self._from(relax.op.divide, other)

    def __neg__(self) -> Term:
        return self.of(relax.op.negative)

    def __abs__(self) -> Term:
        return self.of(relax.op.abs)

    def __lt__(self, other: Operand) -> Term:
        return self._with(relax.op.less, other)

    def __le__(self, other: Operand) -> Term:
        return self._with(relax.op.less_equal, other)

    def __gt__(self, other: Operand) -> Term:
        return self._with(relax.op.greater, other)

    def __ge__(self, other: Operand) -> Term:
        return self._with(relax.op.greater_equal, other)

    def __and__(self, other: Term) -> Term:
        return self._with(relax.op.logical_and, other)

    def __or__(self, other: Term) -> Term:
        return self._with(relax.op.logical_or, other)

    def __invert__(self) -> Term:
        return self.of(relax.op.logical_not)

    def equals(self, other: Operand) -> Term:
        return self._with(relax.op.equal, other)

    def maximum(self, other: Operand) -> Term:
        return self._with(relax.op.maximum, other)

    def minimum(self, other: Operand) -> Term:
        return self._with(relax.op.minimum, other)

    def where(self, condition: Term, otherwise: Operand) -> Term:
        """Return the elements where a condition holds, and others where not."""
        chosen = relax.op.where(condition.expr, self.expr, self._expr(otherwise))
        return Term(self.emit, self.emit(chosen))

    def filled(self, condition: Term, value: float) -> Term:
        """Return the elements, with a number where a condition holds."""
        chosen = relax.op.where(condition.expr, self._expr(value), self.expr)
        return Term(self.emit, self.emit(chosen))

    def polynomial(self, factors: Sequence[float]) -> Term:
        """Return a polynomial, whose constant is first."""
        result = Term(self.emit, self._expr(factors[-1]))
        for factor in reversed(factors[:-1]):
            result = result * self + factor
        return result
