# SPDX-License-Identifier: Apache-2.0
"""What an operator does along each axis of its operands, as a rule says it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import tvm_ffi

from .ranges import ANY, Range
from .value import Known, Shape, Value

Mixing = Literal[
    "",
    "any",
    "sum",
    "max",
    "min",
    "prod",
    "product",
    "prefix",
    "first",
    "weights",
    "scores",
    "keys",
]
"""How elements of an axis are combined.

Not at all; in a way that is not said; by a reduction; by the sum of a product; each with those
before it; the first alone; by a softmax; as the scores, or else the keys, of an attention.
"""


Form = Literal["", "pointwise", "commutative", "rows"]


@dataclass(frozen=True)
class Role:
    """What becomes of an axis of an operand.

    Attributes
    ----------
    axis : int or None
        The axis of the result that has its elements, one for each.
    mixes : str
        How elements of it are combined.
    """

    axis: int | None = None
    mixes: Mixing = ""


Roles = Sequence[Role]

GONE = Role(None, "any")
"""The role of an axis whose elements are combined in a way that is not said."""


@dataclass(frozen=True)
class Meaning:
    """What a result depends on.

    Attributes
    ----------
    roles : sequence of Roles
        Of the axes of each operand.
    range : callable
        Returns the range of results, given those of the operands.
    label : str or None
        What the arguments that are no tensors mean, where these name sizes that are tracked.
    form : "", "pointwise", "commutative" or "rows"
        What may be left out of account in the shapes and the order of operands: axes of length 1
        where elements meet that are at the same place, also the order of two operands, and how the
        rows of the first operand are arranged where a matrix multiplies each.
    """

    roles: Sequence[Roles]
    range: Callable[[Sequence[Range]], Range] = lambda _: ANY
    label: str | None = None
    form: Form = ""


@dataclass(frozen=True)
class Operation:
    """A call of an operator.

    Attributes
    ----------
    name : str
        Without ``relax.``.
    attrs : tvm.ir.Attrs or None
    operands : tuple of Value
        The tensors that it reads, in order, also those of a tuple.
    others : tuple of relax.Expr
        The arguments that are no tensors.
    shapes : tuple of Shape
        Of the results.
    dtypes : tuple of str
    label : str
        What else tells it from others.
    """

    name: str
    attrs: Any
    operands: tuple[Value, ...]
    others: tuple[Any, ...]
    shapes: tuple[Shape, ...]
    dtypes: tuple[str, ...]
    label: str = ""

    @property
    def named(self) -> tuple[Hashable, ...]:
        """What tells the operator from others, without its arguments."""
        attrs = None if self.attrs is None else tvm_ffi.StructuralKey(self.attrs)
        return self.name, self.label, attrs

    @property
    def described(self) -> tuple[Hashable, ...]:
        """The same, and the arguments that are no tensors."""
        return (*self.named, *map(tvm_ffi.StructuralKey, self.others))

    @property
    def data(self) -> Value:
        """The first operand."""
        return self.operands[0]

    @property
    def rank(self) -> int:
        """The number of axes of the first operand."""
        return len(self.data.shape)


MeaningRule = Callable[[Operation], Sequence[Meaning]]
"""Returns what each result depends on."""

ValueRule = Callable[[Any, Operation], Known]
"""Returns what is known of the results, given what is tracked."""


def same(rank: int) -> list[Role]:
    """Return the roles of axes that the result has, too."""
    return [Role(axis) for axis in range(rank)]


def gone(value: Value) -> list[Role]:
    """Return the roles of an operand that must not depend on rows or positions."""
    return [GONE for _ in value.shape]


def broadcast(value: Value, rank: int) -> list[Role]:
    """Return the roles of axes that are aligned with the last ones of a result."""
    missing = rank - len(value.shape)
    return [Role(axis + missing) for axis in range(len(value.shape))]
