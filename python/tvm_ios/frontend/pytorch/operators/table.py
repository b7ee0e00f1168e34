# SPDX-License-Identifier: Apache-2.0
"""The table of PyTorch's operators, with the converter of each overload."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...onnx.operators import Value
from ..node_emitter import AtenEmitter

if TYPE_CHECKING:
    import torch

Converter = Callable[..., Value]
"""A function of an emitter and the operator's arguments, in the order of its schema.

Tensors are expressions; all others are Python's values. Arguments that a schema has by keyword only
are given by keyword, and only those that differ from their defaults.
"""

_OF_RESULT = frozenset((
    "dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking", "copy",
))  # fmt: skip
"""Arguments that say what PyTorch's result is, whose type and shape the emitter knows."""


@dataclass(frozen=True)
class Entry:
    """A converter of an overload of an operator."""

    convert: Converter

    @cached_property
    def keywords(self) -> set[str]:
        parameters = list(inspect.signature(self.convert).parameters.values())[1:]
        named = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return {p.name for p in parameters if p.kind in named}


OPERATORS: dict[str, Entry] = {}
"""By name and overload, such as ``add.Tensor``; with a namespace where that is not ``aten``."""

OF_COMPLEX: dict[str, Entry] = {}
"""The same for calls that take or return complex numbers, each as a pair on a last axis."""


def operator(*names: str) -> Callable[[Converter], Converter]:
    """Register a function as the converter of overloads of operators."""
    return _entering(OPERATORS, names)


def complex_operator(*names: str) -> Callable[[Converter], Converter]:
    """Register a converter of calls that take or return complex numbers."""
    return _entering(OF_COMPLEX, names)


def _entering(table: dict[str, Entry], names: Sequence[str]) -> Callable[[Converter], Converter]:
    def enter(convert: Converter) -> Converter:
        for name in names:
            assert name not in table, f"{name} has two converters"
            table[name] = Entry(convert)
        return convert

    return enter


def find(target: Any, of_complex: bool = False) -> Entry | None:
    """Return the entry of an overload of an operator, for real or for complex numbers."""
    table = OF_COMPLEX if of_complex else OPERATORS
    return table.get(str(target).removeprefix("aten."))


def apply(
    entry: Entry,
    emit: AtenEmitter,
    schema: torch.FunctionSchema,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Value:
    """Convert a node.

    Parameters
    ----------
    entry : Entry
    emit : AtenEmitter
    schema : torch.FunctionSchema
        The operator's arguments and their defaults.
    args, kwargs
        The node's arguments; tensors as expressions.

    Raises
    ------
    ModelError
        If the converter lacks an argument, or rejects one.
    """
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for number, argument in enumerate(schema.arguments):
        default = argument.default_value if argument.has_default_value() else None
        value = args[number] if number < len(args) else kwargs.get(argument.name, default)
        if not argument.kwarg_only:
            positional.append(value)
        elif argument.name not in _OF_RESULT and not (value is default or value == default):
            named[argument.name] = value
    strange = sorted(named.keys() - entry.keywords)
    if strange:
        raise emit.error(f"has the argument {', '.join(strange)}, which is not supported.")
    return entry.convert(emit, *positional, **named)
