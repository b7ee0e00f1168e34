# SPDX-License-Identifier: Apache-2.0
"""Epilogues: elementwise operations on a kernel's result while it is in registers.

An epilogue is independent of TVM's IR. It consists of steps over earlier values, arguments and
constants. The extractor builds it once, and it is part of a kernel's key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

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
    """One elementwise operation; ``op`` is its name, such as ``add``."""

    op: str
    operands: tuple[Operand, ...]


Broadcast = Literal["full", "channel", "image", "last", "any"]
"""How a tensor argument is broadcast to the result. ``full``: it has the result's shape.
``image``: one value for each position of the first two axes of a result of four.
``channel``: one value for each position of axis 1 of a result of four axes. ``last``: one value for
each position of the result's last axis. ``any``: any other way, which only elementwise operations
that are operators of their own support."""


@dataclass(frozen=True)
class Epilogue:
    """An epilogue: steps after an anchor.

    Its result is that of the last step, or else the anchor's. Where no anchor is before it, it may
    have other results, too.

    Attributes
    ----------
    steps : tuple of Step
    arguments : tuple of Broadcast
        One per tensor argument.
    stored : tuple of int
        The values, in their order, that are results before the last one.
    """

    steps: tuple[Step, ...] = ()
    arguments: tuple[Broadcast, ...] = ()
    stored: tuple[int, ...] = ()

    @property
    def results(self) -> tuple[int, ...]:
        """The values that are results; the last one is that of the last step."""
        return (*self.stored, len(self.steps))

    @property
    def counts(self) -> bool:
        """Whether the anchor's result is rounded at once to integers that float32 has.

        It is a sum of integers then, and must be exact.
        """
        return self.steps[:2] == _WHOLE

    def __str__(self) -> str:
        """Return the text that fingerprints of networks have, by which old schedules are known."""
        stored = f", stored={self.stored!r}" if self.stored else ""
        return f"Program(steps={self.steps!r}, arguments={self.arguments!r}{stored})"


NOTHING = Epilogue()
"""The epilogue without steps."""

EXACT = 1 << 24
"""All integers up to this one are numbers of float32."""

_LIMITS = (Operand("constant", -float(EXACT)), Operand("constant", float(EXACT)))
_WHOLE = (
    Step("round", (Operand("value", 0),)),
    Step("clip", (Operand("value", 1), *_LIMITS)),
)
