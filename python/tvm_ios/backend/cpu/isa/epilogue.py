# SPDX-License-Identifier: Apache-2.0
"""The code of epilogues, on scalars and vectors alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from tvm.tirx.script import builder as T

from ....ops.epilogue import Epilogue, Operand
from .elementwise import FUNCTIONS
from .emit import splat
from .functions import keep

Expr = Any


def apply_epilogue(
    epilogue: Epilogue, anchor: Expr, load: Callable[[int], Expr], lanes: int
) -> Expr:
    """Emit an epilogue on ``anchor``, and return its result.

    Parameters
    ----------
    epilogue : Epilogue
    anchor : Expr
        The anchor's result.
    load : callable
        ``load(i)`` returns tensor argument ``i``.
    lanes : int
        Elements of the vector.
    """
    reads = Counter(operand for step in epilogue.steps for operand in step.operands)
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
    for i, step in enumerate(epilogue.steps):
        result = FUNCTIONS[step.op](*map(read, step.operands))
        define(Operand("value", i + 1), result)
    return values[Operand("value", len(epilogue.steps))]
