# SPDX-License-Identifier: Apache-2.0
"""TIR functions of our own: recurrent layers, checks of indices, and keys of orders."""

from __future__ import annotations

from dataclasses import replace

from tvm import tirx

from ....ops.index_check import check_of
from ....ops.order_key import is_order_key
from ....ops.recurrence import Recurrence
from ....ops.recurrence_function import recurrence_of
from ..meaning import GONE, Meaning, Operation, Role, same
from ..ranges import FINITE, Range, kept_finite


def meanings(function: tirx.PrimFunc, operation: Operation) -> tuple[list[Meaning], str] | None:
    """Return what each result of a function depends on, and a description of the function.

    None for a function that is not of our own.
    """
    check, layer = check_of(function), recurrence_of(function)
    if check is not None:
        return [Meaning([same(operation.rank)], lambda r: _checked(r[0]))], str(check)
    if layer is not None:
        described = replace(layer, steps=0, batch=0, hidden=0, batch_first=False)
        return _recurrence(layer), described.text
    if is_order_key(function):
        return [Meaning([same(operation.rank)], lambda _: FINITE)], "order"
    return None


def _checked(indices: Range) -> Range:
    """Return the range of indices that count from the beginning."""
    return indices if indices.low >= 0 else FINITE


def _recurrence(layer: Recurrence) -> list[Meaning]:
    """Return the meaning of each step's state, and of the last states."""
    batch, steps = (0, 1) if layer.batch_first else (1, 0)

    def meaning(own: int, time: Role) -> Meaning:
        products = [GONE, GONE, GONE]
        products[batch], products[steps] = Role(own), time
        count = len(layer.inputs) - layer.states
        lengths = [[Role(own)]] if layer.ragged else []
        weights = [[GONE for _ in shape] for shape in layer.inputs[1 : count - len(lengths)]]
        states = [[Role(own), GONE] for _ in range(layer.states)]
        return Meaning([products, *weights, *lengths, *states], lambda r: kept_finite(*r))

    time = GONE if layer.backwards else Role(steps, "prefix")
    return [meaning(batch, time), *[meaning(0, GONE) for _ in range(layer.states)]]
