# SPDX-License-Identifier: Apache-2.0
"""Operators that take tensors apart, and that put them together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax

from ....relax_ir.constants import number_of
from ..meaning import GONE, Meaning, MeaningRule, Operation, Role, gone, same
from ..ranges import ANY, Range, exactly, union

Ranges = Sequence[Range]


def _first(ranges: Ranges) -> Range:
    return ranges[0]


def _union(ranges: Ranges) -> Range:
    return union(*ranges)


def _concat(operation: Operation) -> list[Meaning]:
    axis = int(operation.attrs.axis or 0) % operation.rank
    roles = [GONE if a == axis else Role(a) for a in range(operation.rank)]
    return [Meaning([roles for _ in operation.operands], _union)]


def _stack(operation: Operation) -> list[Meaning]:
    axis = int(operation.attrs.axis or 0) % (operation.rank + 1)
    roles = [Role(a if a < axis else a + 1) for a in range(operation.rank)]
    return [Meaning([roles for _ in operation.operands], _union)]


def _split(operation: Operation) -> list[Meaning]:
    axis = int(operation.attrs.axis) % operation.rank
    roles = [GONE if a == axis else Role(a) for a in range(operation.rank)]
    return [Meaning([roles], _first)] * len(operation.shapes)


def _slice(operation: Operation) -> list[Meaning]:
    parts = sliced(operation)
    if parts is None:
        return [Meaning([gone(operation.data)])]
    roles = same(operation.rank)
    for axis, begin, end, step in parts:
        roles[axis] = Role(None, "first") if (begin, end, step) == (0, 1, 1) else GONE
    return [Meaning([roles], _first, str(parts))]


def sliced(operation: Operation) -> list[tuple[int, int, int, int]] | None:
    """Return the axes that a slice is not all of, with its begin, its end and its step there.

    None if they are not known.
    """
    found = [_numbers(argument) for argument in operation.others]
    if any(numbers is None for numbers in found) or len(found) < 3:
        return None
    axes, begins, ends, *rest = (numbers or [] for numbers in found)
    steps = rest[0] if rest else [1] * len(axes)
    parts = []
    for axis, begin, end, step in zip(axes, begins, ends, steps, strict=True):
        size = operation.data.shape[axis]
        first, last = (max(0, min(size, n + size if n < 0 else n)) for n in (begin, end))
        if (first, last, step) != (0, size, 1):
            parts.append((axis % operation.rank, first, last, step))
    return parts


def _numbers(argument: Any) -> list[int] | None:
    """Return the numbers of a tuple or a shape; None if some are not known."""
    fields = (
        argument.fields if isinstance(argument, relax.Tuple) else getattr(argument, "values", None)
    )
    if fields is None:
        return None
    numbers = [number_of(field) for field in fields]
    return None if None in numbers else [int(n) for n in numbers if n is not None]


def _pad(operation: Operation) -> list[Meaning]:
    widths = [int(n) for n in operation.attrs.pad_width]
    pairs = zip(widths[::2], widths[1::2], strict=True)
    roles = [Role(a) if pair == (0, 0) else GONE for a, pair in enumerate(pairs)]
    value = operation.attrs.pad_value
    number = number_of(value) if not isinstance(value, int | float) else float(value)
    border = ANY if number is None else exactly(number)
    return [Meaning([roles], lambda r: union(r[0], border))]


def _tile(operation: Operation) -> list[Meaning]:
    repeats = [int(n) for n in operation.attrs.repeats]
    missing = len(operation.shapes[0]) - operation.rank
    repeats = [1] * (len(operation.shapes[0]) - len(repeats)) + repeats
    roles = [
        Role(a + missing) if repeats[a + missing] == 1 else GONE for a in range(operation.rank)
    ]
    return [Meaning([roles], _first)]


def _repeat(operation: Operation) -> list[Meaning]:
    axis = operation.attrs.axis
    if axis is None:
        return [Meaning([gone(operation.data)])]
    repeated = int(axis) % operation.rank
    roles = [GONE if a == repeated else Role(a) for a in range(operation.rank)]
    return [Meaning([roles], _first)]


def _take(operation: Operation) -> list[Meaning]:
    data, *indices = operation.operands
    rank = len(indices[0].shape) if indices else 0
    axis = 0 if operation.attrs.axis is None else int(operation.attrs.axis) % operation.rank
    its = [
        GONE if a == axis else Role(a if a < axis else a + rank - 1) for a in range(len(data.shape))
    ]
    own = [[Role(axis + a) for a in range(rank)]] if indices else []
    known = (lambda _: ANY) if str(operation.attrs.mode) == "nan" else _first
    return [Meaning([its, *own], known)]


def _gather(operation: Operation) -> list[Meaning]:
    axis = int(operation.attrs.axis) % operation.rank
    its = [GONE if a == axis else Role(a) for a in range(operation.rank)]
    return [Meaning([its, same(operation.rank)], _first)]


def _gather_nd(operation: Operation) -> list[Meaning]:
    data, indices = operation.operands
    if int(operation.attrs.batch_dims) != 0:
        return [Meaning([gone(data), gone(indices)])]
    places = [*same(len(indices.shape) - 1), GONE]
    return [Meaning([gone(data), places], _first)]


def _scatter(operation: Operation) -> list[Meaning]:
    axis = int(operation.attrs.axis) % operation.rank
    roles = [Role(a, "any" if a == axis else "") for a in range(operation.rank)]
    return [Meaning([roles, roles, roles])]


def _one_hot(operation: Operation) -> list[Meaning]:
    axis = int(operation.attrs.axis) % (operation.rank + 1)
    roles = [Role(a if a < axis else a + 1) for a in range(operation.rank)]
    return [Meaning([roles, *map(gone, operation.operands[1:])])]


RULES: dict[str, MeaningRule] = {
    "concat": _concat,
    "stack": _stack,
    "split": _split,
    "strided_slice": _slice,
    "nn.pad": _pad,
    "tile": _tile,
    "repeat": _repeat,
    "take": _take,
    "gather_elements": _gather,
    "gather_nd": _gather_nd,
    "scatter_elements": _scatter,
    "one_hot": _one_hot,
}
