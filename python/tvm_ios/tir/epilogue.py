# SPDX-License-Identifier: Apache-2.0
"""Epilogues: elementwise operations on a kernel's result while it is in registers.

An epilogue is independent of TVM's IR. It consists of steps over earlier values, arguments and
constants. The extractor builds it once, it is part of a kernel's key, and it is emitted on scalars
and vectors alike.
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
    """An operand of a step.

    Attributes
    ----------
    kind : str
        ``"value"``: value ``index`` of the epilogue, where value 0 is the anchor's result and value
        i the result of step i - 1. ``"argument"``: tensor argument ``index``. ``"constant"``: the
        number itself.
    index : int or float
    """

    kind: Literal["value", "argument", "constant"]
    index: int | float


@dataclass(frozen=True)
class Step:
    """One elementwise operation; ``op`` is a key of :data:`FUNCTIONS`."""

    op: str
    operands: tuple[Operand, ...]


Broadcast = Literal["full", "channel", "last", "any"]
"""How a tensor argument is broadcast to the result. ``full``: it has the result's shape.
``channel``: one value for each position of axis 1 of a result of four axes. ``last``: one value for
each position of the result's last axis. ``any``: any other way, which only elementwise operations
that are operators of their own support."""


@dataclass(frozen=True)
class Epilogue:
    """An epilogue: steps after an anchor.

    Its result is that of the last step, or else the anchor's.

    Attributes
    ----------
    steps : tuple of Step
    arguments : tuple of Broadcast
        One per tensor argument.
    """

    steps: tuple[Step, ...] = ()
    arguments: tuple[Broadcast, ...] = ()

    def __str__(self) -> str:
        """Return the text that fingerprints of networks have, by which old schedules are known."""
        return f"Program(steps={self.steps!r}, arguments={self.arguments!r})"

    def apply(self, anchor: Expr, load: Callable[[int], Expr], lanes: int) -> Expr:
        """Emit the epilogue on ``anchor``.

        Parameters
        ----------
        anchor : Expr
            The anchor's result.
        load : callable
            ``load(i)`` returns tensor argument ``i``.
        lanes : int
            Elements of the vector.

        Returns
        -------
        Expr
            The epilogue's result.
        """
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


NOTHING = Epilogue()
"""The epilogue without steps."""
