# SPDX-License-Identifier: Apache-2.0
"""The table of ONNX's operators, with the converters of each by version."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from tvm import relax

from ....ops.narrow import NARROW
from ...emitter import constant, dtype_of
from ..counted import Counted
from ..narrow import Narrow
from ..node_emitter import NodeEmitter

Value: TypeAlias = "relax.Expr | Narrow | Counted | tuple[Value, ...] | None"
"""A tensor, a sequence of tensors, or an output that is left out."""

REFUSES, MOVES, TAKES = "refuses", "moves", "takes"
"""What an operator does with tensors of narrow types: its converter is given none; their elements
as bytes, which it copies; or the tensors as such.
"""

Converter: TypeAlias = Callable[..., Value]
"""A function of an emitter, the operator's inputs and, by keyword, its attributes.

An input that may be left out is None by default, and attributes have ONNX's defaults. What was an
attribute in earlier versions and is an input now has one name for both.
"""


@dataclass(frozen=True)
class Entry:
    """A converter of an operator.

    Attributes
    ----------
    convert : Converter
    since : int
        The first version of ONNX's operators that it is for.
    shared : frozenset of str
        Attributes that it shares with other operators, and hands on.
    narrow : str
        :data:`REFUSES`, :data:`MOVES` or :data:`TAKES`.
    """

    convert: Converter
    since: int
    shared: frozenset[str] = frozenset()
    narrow: str = REFUSES

    @cached_property
    def inputs(self) -> list[inspect.Parameter]:
        """The parameters of the inputs."""
        named = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
        return [p for p in self._parameters[1:] if p.kind not in named]

    @cached_property
    def attributes(self) -> set[str]:
        return {p.name for p in self._parameters if p.kind is p.KEYWORD_ONLY} | self.shared

    @cached_property
    def needed(self) -> set[str]:
        """The attributes without a default."""
        keywords = (p for p in self._parameters if p.kind is p.KEYWORD_ONLY)
        return {p.name for p in keywords if p.default is p.empty}

    @cached_property
    def is_variadic(self) -> bool:
        return any(p.kind is p.VAR_POSITIONAL for p in self.inputs)

    @cached_property
    def _parameters(self) -> list[inspect.Parameter]:
        return list(inspect.signature(self.convert).parameters.values())


OPERATORS: dict[tuple[str, str], list[Entry]] = {}
"""The converters by domain and name, the newest version first."""


def operator(
    *names: str,
    since: int = 1,
    domain: str = "",
    shared: frozenset[str] = frozenset(),
    narrow: str = REFUSES,
) -> Callable[[Converter], Converter]:
    """Register a function as the converter of operators, from a version on."""

    def enter(convert: Converter) -> Converter:
        for name in names:
            entries = OPERATORS.setdefault((domain, name), [])
            assert all(entry.since != since for entry in entries), f"{name} has two entries"
            entries.append(Entry(convert, since, shared, narrow))
            entries.sort(key=lambda entry: -entry.since)
        return convert

    return enter


def find(domain: str, name: str, opset: int) -> Entry | None:
    """Return the converter of an operator in a version of its domain."""
    entries = OPERATORS.get((domain, name), ())
    return next((entry for entry in entries if entry.since <= opset), None)


def apply(
    entry: Entry, emit: NodeEmitter, inputs: Sequence[Value], attributes: Mapping[str, Any]
) -> Value:
    """Convert a node.

    Parameters
    ----------
    entry : Entry
    emit : NodeEmitter
    inputs : sequence of Value
        None for one that is left out.
    attributes : mapping of str to value
        Text as str, and tensors as constants.

    Raises
    ------
    ModelError
        If the inputs or attributes are invalid, or the converter rejects them.
    """
    given = list(inputs)
    named = dict(attributes)
    if not entry.is_variadic:
        _move_to_inputs(entry, given, named)
        if len(given) > len(entry.inputs):
            raise emit.error(f"has {len(given)} inputs, of which {len(entry.inputs)} are known.")
    missing = sorted(entry.needed - named.keys())
    if missing:
        raise emit.error(f"needs the attribute {', '.join(missing)}.")
    strange = sorted(named.keys() - entry.attributes)
    if strange:
        raise emit.error(f"has the attribute {', '.join(strange)}, which is not supported.")
    dtypes = {x.dtype for x in (*given, *named.values()) if isinstance(x, Narrow)}
    if not dtypes or entry.narrow == TAKES:
        return entry.convert(emit, *given, **named)
    if entry.narrow == REFUSES or len(dtypes) != 1:
        raise emit.error(
            f"computes with tensors of type {' and '.join(sorted(dtypes))}, which is not "
            "supported; cast or dequantise them before."
        )
    held = [x.stored if isinstance(x, Narrow) else x for x in given]
    return _narrow(entry.convert(emit, *held, **named), *dtypes)


def _narrow(moved: Value, dtype: str) -> Value:
    """Return elements of a narrow type that were moved as bytes as a tensor of that type."""
    is_held = isinstance(moved, relax.Expr) and dtype_of(moved) == NARROW[dtype]
    return Narrow(moved, dtype) if is_held else moved


def _move_to_inputs(entry: Entry, inputs: list[Value], attributes: dict[str, Any]) -> None:
    """Make constant inputs of attributes that are inputs in later versions."""
    for place, parameter in enumerate(entry.inputs):
        if parameter.name not in attributes or len(inputs) > place:
            continue
        inputs += [None] * (place - len(inputs))
        inputs.append(_constant(attributes.pop(parameter.name)))


def _constant(value: Any) -> relax.Expr:
    """Return integers as int64, and numbers as float32, as attributes hold them."""
    numbers = np.asarray(value)
    return constant(numbers.astype("int64" if numbers.dtype.kind == "i" else "float32"))
