# SPDX-License-Identifier: Apache-2.0
"""An entry of the zoo: the name, the inputs and the description of a network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from .values import Value

Size = Literal["image_size", "length"]


@dataclass(frozen=True)
class Input:
    """An input of a network; int32 elements are row numbers of a table."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"


@dataclass(frozen=True)
class Inputs:
    """The inputs of a network, as a function of the batch and of one size.

    Attributes
    ----------
    size_name : {"image_size", "length"}
        The name of the size: height and width of an image in pixels, or length of a sequence.
    size : int
        The default size.
    of : callable
        Returns the inputs for a batch and a size; their first axis is the batch.
    """

    size_name: Size
    size: int
    of: Callable[[int, int], tuple[Input, ...]]


def images(size: int) -> Inputs:
    """Return the inputs of a network with one input, "data": square images of three channels."""
    return Inputs(
        "image_size", size, lambda batch, pixels: (Input("data", (batch, 3, pixels, pixels)),)
    )


@dataclass(frozen=True)
class Network:
    """An entry of the zoo.

    Attributes
    ----------
    name : str
        The name.
    inputs : Inputs
        The inputs.
    describe : callable
        Builds the network: takes a builder and the inputs' values, returns the output's value.
    """

    name: str
    inputs: Inputs
    describe: Callable[..., Value[Any]]
