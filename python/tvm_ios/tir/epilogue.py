# SPDX-License-Identifier: Apache-2.0
"""Elementwise programs: what is computed on a kernel's result while it is in registers.

A program is free of TVM's IR: steps over earlier values, arguments and constants. It is built once
by the extractor, is part of a kernel's key, and is emitted on scalars or vectors alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from tvm.tirx.script import builder as T

from .emit import splat
from .functions import FUNCTIONS, keep

Expr = Any


@dataclass(frozen=True)
class Operand:
    """What a step reads.

    ``value`` i: value i of the program (0 is the anchor's result, i the result of step i - 1);
    ``argument`` i: tensor argument i; ``constant``: the number itself.
    """

    kind: Literal["value", "argument", "constant"]
    index: int | float


@dataclass(frozen=True)
class Step:
    """One elementwise operation; ``op`` is a key of :data:`FUNCTIONS`."""

    op: str
    operands: tuple[Operand, ...]


Broadcast = Literal["full", "channel", "last", "any"]
"""How a tensor argument meets the result: of its shape; one value for each position of axis 1 of a
result of four axes; one value for each position of the result's last axis; in another way, which
only an elementwise operation that is no part of another operator's takes."""


@dataclass(frozen=True)
class Program:
    """Steps after an anchor; the result is the last step's, or the anchor's when there is none.

    Attributes
    ----------
    steps : tuple of Step
    arguments : tuple of Broadcast
        One per tensor argument.
    """

    steps: tuple[Step, ...] = ()
    arguments: tuple[Broadcast, ...] = ()

    def apply(self, anchor: Expr, load: Callable[[int], Expr], lanes: int) -> Expr:
        """Emit the program on ``anchor``; ``load(i)`` gives tensor argument ``i``."""
        reads = Counter(operand for step in self.steps for operand in step.operands)
        values: dict[Operand, Expr] = {}

        def define(operand: Operand, value: Expr) -> None:
            values[operand] = keep(value) if reads[operand] > 1 else value

        def read(operand: Operand) -> Expr:
            if operand.kind == "constant":
                return splat(T.float32(operand.index), lanes)
            if operand not in values:
                define(operand, load(int(operand.index)))
            return values[operand]

        define(Operand("value", 0), anchor)
        for i, step in enumerate(self.steps):
            result = FUNCTIONS[step.op](*map(read, step.operands))
            define(Operand("value", i + 1), result)
        return values[Operand("value", len(self.steps))]


NOTHING = Program()
"""The program without steps."""
