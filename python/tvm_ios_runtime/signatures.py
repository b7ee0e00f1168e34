# SPDX-License-Identifier: Apache-2.0
"""The signatures of a library: its functions, each for inputs of one shape.

Signatures differ in the sizes of axes. An axis is all dimensions that vary together, such as the
first one of every input and output, the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .tensor_info import TensorInfo

Place = tuple[int, int]
"""A dimension of an input or an output: the number of the tensor, and of the dimension."""


@dataclass(frozen=True)
class Signature:
    """A function of a library.

    Attributes
    ----------
    function : str
        Its name.
    inputs, outputs : tuple of TensorInfo
        With static shapes, but for one signature that serves all others.
    seconds : float or None
        The duration of a call, as it was measured by the compiler.
    """

    function: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    seconds: float | None = None

    @staticmethod
    def from_metadata(described: Mapping[str, Any]) -> Signature:
        """Return what an entry of a library's metadata says."""
        inputs, outputs = (
            tuple(map(TensorInfo.from_metadata, described[key])) for key in ("inputs", "outputs")
        )
        return Signature(described["function"], inputs, outputs, described.get("seconds"))

    @property
    def is_open(self) -> bool:
        """Whether the function takes several shapes."""
        return any(size is None for info in self.inputs for size in info.shape)

    @property
    def shapes(self) -> tuple[tuple[int | None, ...], ...]:
        """The shapes of the inputs."""
        return tuple(info.shape for info in self.inputs)


@dataclass(frozen=True)
class Axis:
    """Dimensions that have the same size as each other in every signature.

    Attributes
    ----------
    sizes : tuple of int
        By signature.
    inputs, outputs : frozenset of Place
        The dimensions.
    """

    sizes: tuple[int, ...]
    inputs: frozenset[Place]
    outputs: frozenset[Place]


@dataclass(frozen=True)
class Axes:
    """The axes in which signatures differ.

    Attributes
    ----------
    axes : tuple of Axis
        In the order of the inputs' dimensions.
    batch : int or None
        The axis that is the first dimension of all outputs, and of all inputs that have it.
    complete : bool
        Whether outputs vary in nothing but these axes.
    """

    axes: tuple[Axis, ...]
    batch: int | None
    complete: bool

    @staticmethod
    def of(signatures: Sequence[Signature]) -> Axes:
        """Find the axes of signatures that have tensors of the same ranks."""
        inputs = _varying([signature.inputs for signature in signatures])
        outputs = _varying([signature.outputs for signature in signatures])
        axes = tuple(
            Axis(sizes, _places(inputs, sizes), _places(outputs, sizes))
            for sizes in dict.fromkeys(inputs.values())
        )
        leading = frozenset((number, 0) for number in range(len(signatures[0].outputs)))
        batches = [
            number
            for number, axis in enumerate(axes)
            if axis.outputs == leading and all(dimension == 0 for _, dimension in axis.inputs)
        ]
        known = {axis.sizes for axis in axes}
        return Axes(axes, next(iter(batches), None), known.issuperset(outputs.values()))


def _varying(tensors: Sequence[Sequence[TensorInfo]]) -> dict[Place, tuple[int, ...]]:
    """Return the sizes, by signature, of the dimensions that differ between signatures."""
    found = {}
    for number, infos in enumerate(zip(*tensors, strict=True)):
        for dimension, sizes in enumerate(zip(*(info.shape for info in infos), strict=True)):
            if len(set(sizes)) > 1:
                found[number, dimension] = sizes
    return found


def _places(varying: Mapping[Place, tuple[int, ...]], sizes: tuple[int, ...]) -> frozenset[Place]:
    return frozenset(place for place, its in varying.items() if its == sizes)
