# SPDX-License-Identifier: Apache-2.0
"""What passes between the operators of a network: tensors, and the windows that slide over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ...support.errors import ModelError

Handle = TypeVar("Handle")
Pair = tuple[int, int]
Padding = int | Pair | tuple[int, int, int, int]


@dataclass(frozen=True)
class Value(Generic[Handle]):
    """A tensor inside a network.

    Attributes
    ----------
    handle : Handle
        What the back end calls the tensor.
    shape : tuple of int
        NCHW for a feature map, (N, features) for a vector, (N, length, features) for a sequence.
    """

    handle: Handle
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Window:
    """How a convolution or a pool slides.

    Attributes
    ----------
    kernel, stride : (int, int)
        In (height, width).
    padding : (int, int, int, int)
        Above, to the left, below, to the right.
    ceil : bool
        Whether a last window may hang over the padded map.
    """

    kernel: Pair
    stride: Pair
    padding: tuple[int, int, int, int]
    ceil: bool = False

    @classmethod
    def of(
        cls, kernel: int | Pair, stride: int | Pair, padding: Padding, *, ceil: bool = False
    ) -> Window:
        """Make a window from sizes that may be given once for both directions and sides."""
        sides = _pair(padding) if isinstance(padding, int) else padding
        return cls(_pair(kernel), _pair(stride), (sides * 2)[:4], ceil)

    def output_size(self, size: Sequence[int]) -> Pair:
        """Return the (height, width) that the window makes of a map.

        Raises
        ------
        ModelError
            If the window does not fit into the padded map.
        """
        height, width = (
            (size[i] + self.padding[i] + self.padding[i + 2] - self.kernel[i] + self._spare(i))
            // self.stride[i]
            + 1
            for i in (0, 1)
        )
        if height < 1 or width < 1:
            raise ModelError(
                f"a window of {self.kernel} does not fit into a map of {tuple(size)}: "
                "use a larger image_size"
            )
        return height, width

    def _spare(self, axis: int) -> int:
        """By how much the last window may hang over."""
        return self.stride[axis] - 1 if self.ceil else 0


def _pair(extent: int | Pair) -> Pair:
    return (extent, extent) if isinstance(extent, int) else extent
