# SPDX-License-Identifier: Apache-2.0
"""Static shapes of a model's inputs: what the model fixes, completed by what the user gives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..support.errors import ModelError

LARGEST = 1 << 45
"""Elements of a tensor; more than any address space holds."""

Shapes = Mapping[str, Sequence[int]]


def merged(
    name: str, fixed: Sequence[int | None], given: Sequence[int] | None, batch: int | None
) -> list[int | None]:
    """Return the shape of an input, with None for what stays open.

    Parameters
    ----------
    name : str
    fixed : sequence of int or None
        The sizes that the model fixes; None for the dimensions that it leaves open.
    given : sequence of int or None
        The shape that the user gives.
    batch : int or None
        The first dimension, if the model leaves it open and no shape is given.

    Raises
    ------
    ModelError
        If a dimension is given a size that differs from the model's.
    """
    if given is not None and len(given) != len(fixed):
        raise ModelError(
            f"Input {name!r} has {len(fixed)} dimensions, but the shape given for it, "
            f"{list(given)}, has {len(given)}."
        )
    wanted: list[int | None] = [None] * len(fixed) if given is None else list(given)
    if batch is not None and wanted and wanted[0] is None:
        wanted[0] = batch
    shape = [_dimension(name, i, *sizes) for i, sizes in enumerate(zip(fixed, wanted, strict=True))]
    checked_size(f"Input {name!r}", [1 if size is None else size for size in shape])
    return shape


def checked_size(what: str, shape: list[int]) -> list[int]:
    """Return a shape if a machine can hold a tensor of it.

    Raises
    ------
    ModelError
        If the tensor would be too large.
    """
    if math.prod(max(size, 1) for size in shape) > LARGEST:
        sizes = ", ".join(str(size) if size < LARGEST else "2**45 or more" for size in shape)
        raise ModelError(f"{what} is [{sizes}], which no machine can hold; give it smaller sizes.")
    return shape


def _dimension(name: str, axis: int, fixed: int | None, wanted: int | None) -> int | None:
    """Return the size that the model fixes for a dimension, else the given one."""
    if fixed is not None and wanted not in (None, fixed):
        raise ModelError(
            f"The model fixes dimension {axis} of input {name!r} to {fixed}, so it cannot be "
            f"{wanted}; export the model with this dimension dynamic."
        )
    return wanted if fixed is None else fixed


def check_names(source: str, shapes: Shapes, known: Sequence[str]) -> None:
    """Raise ModelError if a shape is given for an input that the model does not have."""
    for name in shapes:
        if name not in known:
            raise ModelError(f"{source} has no input {name!r}; its inputs: {', '.join(known)}.")
