# SPDX-License-Identifier: Apache-2.0
"""The table of operators: what converts each, with which attributes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tvm import relax

from ....support.errors import RelayError
from ....support.text import last_line
from ..ast import Attribute
from .emitter import Emitter

Value: TypeAlias = "relax.Expr | tuple[Value, ...]"
"""What an expression of Relay is in Relax: a tensor, or several values."""

Converter: TypeAlias = Callable[..., Value]
"""Takes an emitter, the operator's arguments and, by keyword, its attributes.

The keywords are the attributes that the operator has, their defaults those of Relay.
"""


@dataclass(frozen=True)
class Entry:
    """What the table says of an operator.

    Attributes
    ----------
    convert : Converter
    of_tuple : bool
        Whether its only argument is several tensors.
    """

    convert: Converter
    of_tuple: bool

    @property
    def attributes(self) -> Mapping[str, bool]:
        """The operator's attributes, and whether each must be given."""
        return {
            name: parameter.default is parameter.empty
            for name, parameter in self._parameters()
            if parameter.kind is parameter.KEYWORD_ONLY
        }

    @property
    def arguments(self) -> int:
        """How many arguments the operator has."""
        kinds = [parameter.kind for _, parameter in self._parameters()]
        return sum(kind is not inspect.Parameter.KEYWORD_ONLY for kind in kinds) - 1

    def _parameters(self) -> list[tuple[str, inspect.Parameter]]:
        return list(inspect.signature(self.convert).parameters.items())


OPERATORS: dict[str, Entry] = {}
"""The operators that can be converted, by name."""


def operator(*names: str, of_tuple: bool = False) -> Callable[[Converter], Converter]:
    """Enter a function in the table as what converts the operators ``names``."""

    def enter(convert: Converter) -> Converter:
        for name in names:
            assert name not in OPERATORS, f"{name} has two entries"
            OPERATORS[name] = Entry(convert, of_tuple)
        return convert

    return enter


def apply(
    name: str, emit: Emitter, arguments: Sequence[Value], attributes: Mapping[str, Attribute]
) -> Value:
    """Convert one call of the operator ``name``, which has an entry.

    Raises
    ------
    RelayError
        When arguments or attributes are not those of the operator, or its entry refuses them.
    """
    entry = OPERATORS[name]
    _check_arguments(entry, emit, arguments)
    _check_attributes(entry, emit, attributes)
    try:
        return entry.convert(emit, *arguments, **attributes)
    except RelayError:
        raise
    except Exception as error:  # what TVM and NumPy raise of sizes that do not fit is not one type
        raise emit.error(f"cannot be converted: {last_line(error)}.") from error


def _check_arguments(entry: Entry, emit: Emitter, arguments: Sequence[Value]) -> None:
    if len(arguments) != entry.arguments:
        raise emit.error(f"takes {entry.arguments} arguments, but is given {len(arguments)}.")
    for argument in arguments:
        if entry.of_tuple and not (isinstance(argument, tuple) and all(map(_is_tensor, argument))):
            raise emit.error("takes a tuple of tensors, but is given something else.")
        if not entry.of_tuple and not _is_tensor(argument):
            raise emit.error("takes tensors, but is given a tuple.")


def _is_tensor(value: Any) -> bool:
    return isinstance(value, relax.Expr) and isinstance(value.ty, relax.TensorType)


def _check_attributes(entry: Entry, emit: Emitter, given: Mapping[str, Attribute]) -> None:
    known = entry.attributes
    strange = sorted(given.keys() - known.keys())
    if strange:
        raise emit.error(f"has no attribute {', '.join(strange)}; it has: {', '.join(known)}.")
    missing = [name for name, needed in known.items() if needed and name not in given]
    if missing:
        raise emit.error(f"needs the attribute {', '.join(missing)}.")


def integers(emit: Emitter, value: Attribute, count: int, what: str) -> tuple[int, ...]:
    """``count`` integers from a list of as many, or of one that stands for all, or from a number.

    Raises
    ------
    RelayError
        When it is none of these; the message says ``what`` it is.
    """
    numbers: tuple[Any, ...] = value if isinstance(value, tuple) else (value,)
    if len(numbers) == 1:
        numbers = numbers * count
    if len(numbers) != count:
        raise emit.error(f"has {what}={list(numbers)}, but needs {count} numbers.")
    return tuple(int(number) for number in numbers)


def both_sides(
    emit: Emitter, padding: Attribute, rank: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The padding before and behind each axis, from one number, one for each axis, or two."""
    if isinstance(padding, tuple) and len(padding) == 2 * rank:
        numbers = integers(emit, padding, 2 * rank, "padding")
        return numbers[:rank], numbers[rank:]
    same = integers(emit, padding, rank, "padding")
    return same, same
