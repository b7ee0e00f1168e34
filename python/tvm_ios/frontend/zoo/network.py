# SPDX-License-Identifier: Apache-2.0
"""An entry of the zoo: what a network is called, what it reads and how it is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from .values import Value

Size = Literal["image_size", "length"]


@dataclass(frozen=True)
class Input:
    """A tensor that the user gives; an int32 is the number of a row in a table."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"


@dataclass(frozen=True)
class Inputs:
    """The inputs of a network, which depend on the batch and on one size that may be chosen.

    Attributes
    ----------
    size_name : {"image_size", "length"}
        What the user calls the size: height and width of an image in pixels, or length of a
        sequence.
    size : int
        The size unless the user says otherwise.
    of : callable
        From a batch and a size to the inputs; their first axis is the batch.
    """

    size_name: Size
    size: int
    of: Callable[[int, int], tuple[Input, ...]]


def images(size: int) -> Inputs:
    """One input, "data": square images of three channels."""
    return Inputs(
        "image_size", size, lambda batch, pixels: (Input("data", (batch, 3, pixels, pixels)),)
    )


@dataclass(frozen=True)
class Network:
    """An entry of the zoo.

    Attributes
    ----------
    name : str
        What the user calls it.
    inputs : Inputs
        What it reads.
    describe : callable
        Builds the network: from a builder and the values of the inputs to the value of the output.
    """

    name: str
    inputs: Inputs
    describe: Callable[..., Value[Any]]
