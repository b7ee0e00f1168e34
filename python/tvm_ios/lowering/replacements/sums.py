# SPDX-License-Identifier: Apache-2.0
"""The sum that an operator's program begins with.

``relu(conv(x) + bias + y)`` begins with a sum of the anchor's result, of a constant per channel and
of a feature map. What comes after the sum sees nothing but its value, so that the addends may come
from anywhere, and in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import relax

from ...graph.operators import Operator
from ...ops.epilogue import Broadcast, Epilogue, Operand, Step
from ...relax_ir.constants import constant_array
from ...relax_ir.expressions import static_shape


@dataclass(frozen=True)
class LeadingSum:
    """The sum of an anchor's result, constants and feature maps.

    Attributes
    ----------
    steps : int
        Of the program, that the sum takes.
    shift : numpy.ndarray
        float64, the constants of each channel in sum.
    addends : tuple of relax.Expr
        The feature maps.
    """

    steps: int
    shift: np.ndarray
    addends: tuple[relax.Expr, ...]


def leading_sum(op: Operator) -> LeadingSum:
    """Return the longest sum that the epilogue, on four axes, begins with."""
    epilogue, values = op.epilogue, _values(op)
    seen = len(epilogue.steps)  # the first value that is read by what comes after
    for steps in reversed(range(len(epilogue.steps) + 1)):
        value = values[steps]
        if steps <= seen and value is not None and value.anchors == 1:
            channels = static_shape(op.anchor, "a result")[1]
            return LeadingSum(steps, value.shift + np.zeros(channels), value.addends)
        operands = epilogue.steps[steps - 1].operands
        seen = min([seen, *(int(o.index) for o in operands if o.kind == "value")])
    raise AssertionError("the anchor's result is a sum of one")


@dataclass(frozen=True)
class _Value:
    """A value that is a sum; the anchor's result is in it so many times."""

    anchors: int
    shift: np.ndarray
    addends: tuple[relax.Expr, ...] = ()

    @property
    def constant(self) -> bool:
        return not self.anchors and not self.addends

    def __add__(self, other: _Value) -> _Value:
        addends = self.addends + other.addends
        return _Value(self.anchors + other.anchors, self.shift + other.shift, addends)


def _values(op: Operator) -> list[_Value | None]:
    """Return the values of the operator's epilogue as sums; None for those that are none."""
    values: list[_Value | None] = [_Value(1, np.zeros(1))]

    def read(operand: Operand) -> _Value | None:
        if operand.kind == "value":
            return values[int(operand.index)]
        if operand.kind == "constant":
            return _Value(0, np.array([float(operand.index)]))
        expr = op.arguments[int(operand.index)]
        if op.epilogue.arguments[int(operand.index)] == "full":
            return _Value(0, np.zeros(1), (expr,))
        array = constant_array(expr)
        return None if array is None else _Value(0, array.reshape(-1).astype("float64"))

    for step in op.epilogue.steps:
        values.append(_applied(step.op, [read(operand) for operand in step.operands]))
    return values


def _applied(step: str, operands: Sequence[_Value | None]) -> _Value | None:
    """Return the sum that an addition or subtraction makes; None for others."""
    if step not in ("add", "subtract"):
        return None
    left, right = operands
    if left is None or right is None:
        return None
    if step == "add":
        return left + right
    return left + _Value(0, -right.shift) if right.constant else None


@dataclass(frozen=True)
class Rewritten:
    """A program and its tensor arguments."""

    epilogue: Epilogue
    arguments: tuple[relax.Expr, ...]


def with_sum(op: Operator, shift: np.ndarray, addends: Sequence[relax.Expr]) -> Rewritten:
    """Return the operator's epilogue with another leading sum."""
    taken = leading_sum(op).steps
    kinds: list[Broadcast] = []
    arguments: list[relax.Expr] = []
    steps: list[Step] = []

    def argument(kind: Broadcast, expr: relax.Expr) -> Operand:
        kinds.append(kind)
        arguments.append(expr)
        return Operand("argument", len(arguments) - 1)

    if shift.any():
        constant = relax.const(shift.astype("float32").reshape(1, -1, 1, 1), "float32")
        steps.append(Step("add", (Operand("value", 0), argument("channel", constant))))
    for addend in addends:
        steps.append(Step("add", (Operand("value", len(steps)), argument("full", addend))))
    moved = len(steps) - taken

    def renumbered(operand: Operand) -> Operand:
        if operand.kind == "value":
            return Operand("value", int(operand.index) + moved)
        if operand.kind == "argument":
            i = int(operand.index)
            return argument(op.epilogue.arguments[i], op.arguments[i])
        return operand

    for step in op.epilogue.steps[taken:]:
        steps.append(Step(step.op, tuple(map(renumbered, step.operands))))
    return Rewritten(Epilogue(tuple(steps), tuple(kinds)), tuple(arguments))
