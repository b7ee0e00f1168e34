# SPDX-License-Identifier: Apache-2.0
"""The code of epilogues, on scalars and vectors alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from tvm.tirx.script import builder as T

from ....ops.epilogue import Epilogue, Operand
from .elementwise import FUNCTIONS
from .emit import splat
from .functions import keep
from .storage import store

Expr = Any


def apply_epilogue(
    epilogue: Epilogue, anchor: Expr, load: Callable[[int], Expr], lanes: int
) -> Expr:
    """Emit an epilogue of one result on ``anchor``, and return it.

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
    (result,) = _results(epilogue, anchor, load, lanes)
    return result


def store_results(
    epilogue: Epilogue,
    anchor: Expr,
    load: Callable[[int], Expr],
    lanes: int,
    buffers: Sequence[Any],
    place: Sequence[Expr],
) -> None:
    """Emit an epilogue on ``anchor``, and store its results at the same place of the last buffers.

    Parameters
    ----------
    epilogue, anchor, load, lanes
        As for :func:`apply_epilogue`.
    buffers : sequence of buffers
        As many as there are results, and others before them.
    place : sequence of Expr
        The index, whose last one is a vector.
    """
    values = _results(epilogue, anchor, load, lanes)
    for buffer, value in zip(buffers[-len(values) :], values, strict=True):
        store(buffer, value, place)


def _results(
    epilogue: Epilogue, anchor: Expr, load: Callable[[int], Expr], lanes: int
) -> list[Expr]:
    """Emit an epilogue, and return its results in their order."""
    results = [Operand("value", value) for value in epilogue.results]
    reads = Counter(operand for step in epilogue.steps for operand in step.operands)
    reads.update(results)
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
    return [values[result] for result in results]
