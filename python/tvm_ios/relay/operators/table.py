# SPDX-License-Identifier: Apache-2.0
"""The table of operators, with the converter and the attributes of each."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tvm import relax

from ...frontend.emitter import Emitter
from ...support.errors import RelayError
from ...support.text import last_line
from ..ast import Attribute

Value: TypeAlias = "relax.Expr | tuple[Value, ...]"
"""The value of a Relay expression in Relax: a tensor or a tuple."""

Converter: TypeAlias = Callable[..., Value]
"""A function of an emitter, the operator's arguments and, by keyword, its attributes.

The keywords are the attributes of the operator, with Relay's defaults.
"""


@dataclass(frozen=True)
class Entry:
    """An entry of the table.

    Attributes
    ----------
    convert : Converter
        The converter.
    of_tuple : bool
        Whether the only argument is a tuple of tensors.
    """

    convert: Converter
    of_tuple: bool

    @property
    def attributes(self) -> Mapping[str, bool]:
        """The operator's attributes, and whether each is required."""
        return {
            name: parameter.default is parameter.empty
            for name, parameter in self._parameters()
            if parameter.kind is parameter.KEYWORD_ONLY
        }

    @property
    def arguments(self) -> int:
        """The number of arguments of the operator."""
        kinds = [parameter.kind for _, parameter in self._parameters()]
        return sum(kind is not inspect.Parameter.KEYWORD_ONLY for kind in kinds) - 1

    def _parameters(self) -> list[tuple[str, inspect.Parameter]]:
        return list(inspect.signature(self.convert).parameters.items())


OPERATORS: dict[str, Entry] = {}
"""The supported operators, by name."""


def operator(*names: str, of_tuple: bool = False) -> Callable[[Converter], Converter]:
    """Register a function as the converter of the operators ``names``."""

    def enter(convert: Converter) -> Converter:
        for name in names:
            assert name not in OPERATORS, f"{name} has two entries"
            OPERATORS[name] = Entry(convert, of_tuple)
        return convert

    return enter


def apply(
    name: str, emit: Emitter, arguments: Sequence[Value], attributes: Mapping[str, Attribute]
) -> Value:
    """Convert one call of a supported operator.

    Parameters
    ----------
    name : str
        The operator.
    emit : Emitter
        The emitter.
    arguments : sequence of Value
        The converted arguments.
    attributes : mapping of str to Attribute
        The attributes in the call.

    Raises
    ------
    RelayError
        If the arguments or attributes are invalid, or the converter rejects them.
    """
    entry = OPERATORS[name]
    _check_arguments(entry, emit, arguments)
    _check_attributes(entry, emit, attributes)
    try:
        return entry.convert(emit, *arguments, **attributes)
    except RelayError:
        raise
    except Exception as error:  # TVM and NumPy raise various types
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
    """Return ``count`` integers, given as a list, as a list of one, or as a number.

    Parameters
    ----------
    emit : Emitter
        The emitter.
    value : Attribute
        The attribute; one number stands for all.
    count : int
        The number of integers.
    what : str
        The name of the attribute, for messages.

    Raises
    ------
    RelayError
        If their number is wrong.
    """
    numbers: tuple[Any, ...] = value if isinstance(value, tuple) else (value,)
    if len(numbers) == 1:
        numbers = numbers * count
    if len(numbers) != count:
        raise emit.error(f"has {what}={list(numbers)}, but needs {count} numbers.")
    return tuple(int(number) for number in numbers)


def given_dtype(dtype: str | None) -> str | None:
    """Return a data type attribute; None if it is open, in any notation."""
    return None if dtype in (None, "", "void") else dtype


def both_sides(
    emit: Emitter, padding: Attribute, rank: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the padding before and behind each axis.

    Parameters
    ----------
    emit : Emitter
        The emitter.
    padding : Attribute
        One number, one for each axis, or two for each axis.
    rank : int
        The number of axes.
    """
    if isinstance(padding, tuple) and len(padding) == 2 * rank:
        numbers = integers(emit, padding, 2 * rank, "padding")
        return numbers[:rank], numbers[rank:]
    same = integers(emit, padding, rank, "padding")
    return same, same
