# SPDX-License-Identifier: Apache-2.0
"""Concatenation in place: parts are computed where the concatenated tensor holds them.

Such a part needs no tensor of its own: it occupies a slot of the concatenation, and nothing is
copied. A part can occupy one slot only, so the largest of several concatenations gets it. A
concatenation whose parts already lie side by side in the right order becomes a slot itself.
DenseNet is an example: each of its layers concatenates a prefix of what the last layer
concatenates.

Which parts suit a slot depends on the layouts of a back end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate

from tvm import relax

from ..graph.operators import Operator
from ..sizes.size import AnyShape, AnySize, hints_of
from .implementation import Slot
from .value import Value, identity

Slots = Mapping[relax.Var, Slot]


@dataclass(frozen=True)
class Concatenation:
    """An operator that concatenates feature maps along their channels.

    Attributes
    ----------
    op : Operator
    parts : tuple of relax.Expr
        The concatenated tensors.
    distances : tuple of sizes
        Bytes from the begin of each part to the begin of the next one.
    """

    op: Operator
    parts: tuple[relax.Expr, ...]
    distances: AnyShape

    @property
    def result(self) -> relax.Var:
        """The concatenated tensor."""
        return self.op.outputs[0]

    @property
    def offsets(self) -> AnyShape:
        """The byte at which each part begins."""
        return tuple(accumulate(self.distances[:-1], initial=0))

    def places(self, slots: Slots) -> list[tuple[relax.Var, AnySize]]:
        """Return the tensor and the byte offset where each part belongs."""
        root, begin = resolve(self.result, slots)
        return [(root, begin + offset) for offset in self.offsets]

    def copied(self, slots: Slots) -> tuple[int, ...]:
        """Return the positions of the parts that are not computed in place."""
        pairs = zip(self.parts, self.places(slots), strict=True)
        return tuple(
            i
            for i, (part, place) in enumerate(pairs)
            if part not in slots or resolve(part, slots) != place
        )


Suits = Callable[[Concatenation, Slots], Collection[int]]
"""Returns the positions of the parts that a layout allows to be computed in place.

The second argument has the slots that are assigned so far, and the slot that the result would get.
"""


def place(concatenations: Iterable[Concatenation], suits: Suits) -> dict[relax.Var, Slot]:
    """Return the slots of the parts that are computed in place.

    Parameters
    ----------
    concatenations : iterable of Concatenation
        They get parts in the order of their sizes, the largest first.
    suits : callable
        What a layout allows.
    """
    slots: dict[relax.Var, Slot] = {}
    largest_first = sorted(concatenations, key=lambda c: (-sum(hints_of(c.distances)), -c.op.index))
    for concatenation in largest_first:
        _place(concatenation, suits, slots)
    return slots


def parts_of(op: Operator) -> list[relax.Expr]:
    """Return the concatenated tensors, an empty list if the tuple is not written out."""
    operand = op.call.args[0]
    return list(operand.fields) if isinstance(operand, relax.Tuple) else []


def resolve(value: relax.Var, slots: Slots) -> tuple[relax.Var, AnySize]:
    """Return the value whose tensor ``value`` lies in, and its byte offset there."""
    offset: AnySize = 0
    while value in slots:
        offset += slots[value].offset
        value = slots[value].target
    return value, offset


def _place(concatenation: Concatenation, suits: Suits, slots: dict[relax.Var, Slot]) -> None:
    """Assign slots to the parts, or one to the result if the parts have theirs."""
    result, parts = concatenation.result, concatenation.parts
    if result not in slots and parts[0] in slots:
        within = {**slots, result: Slot(*resolve(parts[0], slots))}
        suitable = len(suits(concatenation, within)) == len(parts)
        if suitable and not concatenation.copied(within):
            slots[result] = within[result]
            return
    for i in suits(concatenation, slots):
        part, offset = parts[i], concatenation.offsets[i]
        once = sum(other is part or other.same_as(part) for other in parts) == 1
        if once and part not in slots:
            slots[part] = Slot(result, offset)


def holder(value: Value, slots: Slots) -> object:
    """Return the identity of the value whose tensor holds a value."""
    return identity(resolve(value, slots)[0] if isinstance(value, relax.Var) else value)
