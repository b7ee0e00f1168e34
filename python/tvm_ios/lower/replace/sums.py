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

from ...graph.fold import constant_array
from ...graph.operators import Operator
from ...graph.recognise import static_shape
from ...kernels.elementwise import Operand, Program, Step


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
    """The longest sum that the operator's program, on a result of four axes, begins with."""
    program = op.program
    steps = 0
    while steps < len(program.steps) and _addend(op, steps) is not None:
        steps += 1
    steps = _unseen(program, steps)
    shift: np.ndarray = np.zeros(static_shape(op.anchor, "a result")[1])
    addends = []
    for i in range(steps):
        addend = _addend(op, i)
        if isinstance(addend, np.ndarray):
            shift = shift + addend
        else:
            addends.append(addend)
    return LeadingSum(steps, shift, tuple(addends))


def _unseen(program: Program, steps: int) -> int:
    """At most ``steps``, such that what comes after reads only the last of their values."""
    for number in reversed(range(len(program.steps))):
        if number < steps:
            break
        operands = program.steps[number].operands
        steps = min([steps, *(int(o.index) for o in operands if o.kind == "value")])
    return steps


def _addend(op: Operator, number: int) -> np.ndarray | relax.Expr | None:
    """What step ``number`` adds to the value before it; None if that is not all it does."""
    step, before = op.program.steps[number], Operand("value", number)
    if step.op not in ("add", "subtract") or step.operands.count(before) != 1:
        return None
    if step.op == "subtract" and step.operands[0] != before:
        return None
    (other,) = (operand for operand in step.operands if operand != before)
    if other.kind == "value":
        return None
    sign = 1.0 if step.op == "add" else -1.0
    if other.kind == "constant":
        return np.array(sign * float(other.index))
    expr = op.arguments[int(other.index)]
    if op.program.arguments[int(other.index)] == "full":
        return expr if step.op == "add" else None
    array = constant_array(expr)
    return None if array is None else sign * array.reshape(-1).astype("float64")


@dataclass(frozen=True)
class Rewritten:
    """A program and its tensor arguments."""

    program: Program
    arguments: tuple[relax.Expr, ...]


def with_sum(op: Operator, shift: np.ndarray, addends: Sequence[relax.Expr]) -> Rewritten:
    """The operator's program with another sum in front: ``shift`` per channel, and ``addends``."""
    taken = leading_sum(op).steps
    kinds, arguments, steps = [], [], []

    def argument(kind: str, expr: relax.Expr) -> Operand:
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
            return argument(op.program.arguments[i], op.arguments[i])
        return operand

    for step in op.program.steps[taken:]:
        steps.append(Step(step.op, tuple(map(renumbered, step.operands))))
    return Rewritten(Program(tuple(steps), tuple(kinds)), tuple(arguments))
