# SPDX-License-Identifier: Apache-2.0
"""The tensors of a normalisation of a blocked feature map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from .....ops.epilogue import Epilogue
from .....ops.tensor import TensorSpec
from .....sizes.size import AnySize
from ..layout import Layout

Expr = Any


class Norm(Protocol):
    """A normalisation with a gamma and a beta for each channel, followed by an epilogue."""

    @property
    def batch(self) -> AnySize: ...

    @property
    def channels(self) -> int: ...

    @property
    def pixels(self) -> AnySize: ...

    @property
    def epilogue(self) -> Epilogue: ...


def tensors(norm: Norm, layout: Layout) -> tuple[tuple[TensorSpec, ...], TensorSpec]:
    """Return the inputs (feature map, gamma, beta, the epilogue's arguments) and the result."""
    specs = {
        "full": layout.spec((norm.batch, norm.channels, norm.pixels, 1)),
        "channel": layout.spec((1, norm.channels, 1, 1)),
    }
    kinds = ("full", "channel", "channel", *norm.epilogue.arguments)
    return tuple(specs[kind] for kind in kinds), specs["full"]


def argument_loader(
    epilogue: Epilogue, arguments: Sequence[Any], place: tuple[Expr, Expr, Expr, Expr]
) -> Callable[[int], Expr]:
    """Return what loads an argument of the epilogue at an image, a block, a pixel and lanes."""
    _, block, _, vector = place

    def load(a: int) -> Expr:
        channel = epilogue.arguments[a] == "channel"
        return arguments[a][(0, block, 0, vector) if channel else place]

    return load
