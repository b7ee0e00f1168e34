# SPDX-License-Identifier: Apache-2.0
"""Tensors inside of values: of sequences, of narrow types, with lengths, or alone."""

from __future__ import annotations

from collections.abc import Iterator

from tvm import relax

from .counted import Counted
from .narrow import Narrow
from .operators import Value


def tensors_of(value: Value) -> list[relax.Expr]:
    """Return the tensors of a value, in their order."""
    if isinstance(value, tuple):
        return [tensor for item in value for tensor in tensors_of(item)]
    if isinstance(value, Narrow):
        return [value.stored]
    if isinstance(value, Counted):
        return [value.tensor, value.count]
    return [] if value is None else [value]


def with_tensors(value: Value, tensors: Iterator[relax.Expr]) -> Value:
    """Return a value with other tensors in place of its own, in their order."""
    if isinstance(value, tuple):
        return tuple(with_tensors(item, tensors) for item in value)
    if isinstance(value, Narrow):
        return Narrow(next(tensors), value.dtype)
    if isinstance(value, Counted):
        return Counted(next(tensors), next(tensors), value.axis)
    return None if value is None else next(tensors)


def form_of(value: Value) -> object:
    """Return what two values have in common that consist of the same tensors, but for numbers."""
    if isinstance(value, tuple):
        return tuple(map(form_of, value))
    if isinstance(value, Narrow):
        return value.dtype, str(value.stored.ty)
    if isinstance(value, Counted):
        return value.axis, str(value.tensor.ty)
    return None if value is None else str(value.ty)
