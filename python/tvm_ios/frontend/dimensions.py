# SPDX-License-Identifier: Apache-2.0
"""Sizes of the dimensions that a model leaves open, as the user gives them by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ..sizes.examples import OtherExample
from ..sizes.size import LARGEST_SIZE, AnySize, OpenSizes
from ..support.errors import ModelError, OpenBatchError, OpenShapeError
from .shapes import LARGEST, Shapes, check_names, merged

T = TypeVar("T")

_EXAMPLES = 99
"""How many times a model is read, with more of its dimensions known or other examples."""

Bounds = tuple[int, int]
"""The least and the largest size of a dimension that stays open."""

Dims = Mapping[str, "int | Bounds"]
"""Sizes of dimensions by name, or the bounds between which they stay open."""


@dataclass(frozen=True)
class Given:
    """What the user says of the sizes of a model's inputs.

    Attributes
    ----------
    shapes : mapping of str to sequence of int
        Shapes of inputs by name; the name may be empty where there is one input.
    batch : int or None
        The first dimension of every input that leaves it open.
    dims : mapping of str to int or (int, int)
    """

    shapes: Shapes = field(default_factory=dict)
    batch: int | None = None
    dims: Dims = field(default_factory=dict)


@dataclass(frozen=True)
class Declared:
    """What a model says of an input.

    Attributes
    ----------
    name : str
    sizes : sequence of int or None
        None for the dimensions that it leaves open.
    names : sequence of str
        What the dimensions are called; those of one name have one size.
    """

    name: str
    sizes: Sequence[int | None]
    names: Sequence[str]


Completed = dict[str, "list[int | str]"]
"""The shapes of inputs, with the names of dimensions that stay open."""


def complete(source: str, inputs: Sequence[Declared], given: Given) -> Completed:
    """Return the shapes of inputs, with what the user gives.

    Parameters
    ----------
    source : str
        The model, as the subject of a sentence.
    inputs : sequence of Declared
    given : Given

    Raises
    ------
    ModelError
        If something is given for what the model does not have, or fixes to another size.
    """
    shapes = _named(source, given.shapes, [value.name for value in inputs])
    fixed = _fixed(source, inputs, given.dims)
    result: Completed = {}
    for value in inputs:
        known = zip(value.names, value.sizes, strict=True)
        sizes = [fixed.get(name) if size is None else size for name, size in known]
        shape = merged(value.name, sizes, shapes.get(value.name), given.batch)
        pairs = zip(shape, value.names, strict=True)
        result[value.name] = [name if size is None else size for size, name in pairs]
    return result


def static(shapes: Completed) -> dict[str, list[int]]:
    """Return shapes of which nothing is open.

    Raises
    ------
    OpenShapeError
        If something is; it says what, and how to give it.
    """
    inputs: dict[str, list[str]] = {}
    examples: dict[str, int] = {}
    for name, shape in shapes.items():
        for axis, size in enumerate(shape):
            if isinstance(size, str):
                inputs.setdefault(size, []).append(name)
                examples.setdefault(size, example_size(axis, len(shape)))
    if examples:
        raise (OpenBatchError if _opens_batch_alone(shapes) else OpenShapeError)(inputs, examples)
    return {n: [s for s in shape if isinstance(s, int)] for n, shape in shapes.items()}


def opened(shapes: Completed, sizes: OpenSizes, dims: Dims) -> dict[str, list[AnySize]]:
    """Return shapes whose open dimensions are sizes of ``sizes``."""
    found: dict[str, AnySize] = {}

    def size_of(name: str, axis: int, rank: int) -> AnySize:
        if name not in found:
            bounds = dims.get(name, (1, LARGEST_SIZE))
            assert isinstance(bounds, tuple), "a dimension of known size is not open"
            example = min(max(example_size(axis, rank), bounds[0]), bounds[1])
            found[name] = sizes.open(name, example, *bounds)
        return found[name]

    return {
        name: [
            size_of(size, axis, len(shape)) if isinstance(size, str) else size
            for axis, size in enumerate(shape)
        ]
        for name, shape in shapes.items()
    }


def settled(source: str, sizes: OpenSizes, read: Callable[[], T]) -> T:
    """Return a model as it is read when all is known that it requires of its open dimensions.

    Parameters
    ----------
    source : str
        The model, as the subject of a sentence.
    sizes : OpenSizes
        Their examples decide nothing any more afterwards.
    read : callable
        Opens the dimensions, and returns the model.

    Raises
    ------
    ModelError
    """
    sizes.restarts = True
    for _ in range(_EXAMPLES):
        try:
            model = read()
        except OtherExample as required:
            sizes.restart(required)
        else:
            sizes.assumes = False
            return model
    raise ModelError(
        f"{source} requires sizes of its open dimensions that are not found; give them."
    )


def example_size(axis: int, rank: int) -> int:
    """Return the size that is assumed of an open dimension, for what is searched and decided.

    It is 1 for the first, the batch; 224 for those of images, and 128 for steps of a sequence.
    """
    if axis == 0:
        return 1
    return 224 if rank == 4 else 128


def _named(source: str, shapes: Shapes, names: Sequence[str]) -> Shapes:
    """Return shapes by the names of inputs, where one without a name is of the only input."""
    if "" in shapes:
        if len(names) != 1:
            raise ModelError(
                f"{source} has {len(names)} inputs, {', '.join(names)}; name the one that a shape "
                "is of."
            )
        shapes = {**shapes, names[0]: shapes[""]}
        shapes = {name: shape for name, shape in shapes.items() if name}
    check_names(source, shapes, names)
    return shapes


def _fixed(source: str, inputs: Iterable[Declared], dims: Dims) -> dict[str, int]:
    """Return the dimensions that are given a size."""
    known = dict.fromkeys(
        name
        for value in inputs
        for name, size in zip(value.names, value.sizes, strict=True)
        if size is None
    )
    for name, size in dims.items():
        if name not in known:
            open_ones = f"; it leaves open: {', '.join(known)}" if known else ""
            raise ModelError(f"{source} has no open dimension {name!r}{open_ones}.")
        least, most = size if isinstance(size, tuple) else (size, size)
        if not 1 <= least <= most < LARGEST:
            raise ModelError(
                f"The dimension {name!r} must be from 1 to {LARGEST_SIZE}, got {_range(size)}."
            )
    return {name: size for name, size in dims.items() if isinstance(size, int)}


def _range(size: int | Bounds) -> str:
    return f"{size[0]}..{size[1]}" if isinstance(size, tuple) else str(size)


def _opens_batch_alone(shapes: Completed) -> bool:
    """Return whether the first dimension of all inputs is open, and no other one is."""
    return bool(shapes) and all(
        shape and isinstance(shape[0], str) and not any(isinstance(n, str) for n in shape[1:])
        for shape in shapes.values()
    )
