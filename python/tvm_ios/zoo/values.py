# SPDX-License-Identifier: Apache-2.0
"""Tensors inside a network, and the windows that slide over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..support.errors import ModelError

Handle = TypeVar("Handle")
Pair = tuple[int, int]
Padding = int | Pair | tuple[int, int, int, int]


@dataclass(frozen=True)
class Value(Generic[Handle]):
    """A tensor inside a network.

    Attributes
    ----------
    handle : Handle
        The tensor in the output format.
    shape : tuple of int
        NCHW for a feature map, (N, features) for a vector, (N, length, features) for a sequence.
    """

    handle: Handle
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Window:
    """The sliding window of a convolution or a pool.

    Attributes
    ----------
    kernel, stride, dilation : (int, int)
        In (height, width).
    padding : (int, int, int, int)
        Above, to the left, below, to the right.
    ceil : bool
        Whether a last window may extend beyond the padded map.
    """

    kernel: Pair
    stride: Pair
    padding: tuple[int, int, int, int]
    ceil: bool = False
    dilation: Pair = (1, 1)

    @classmethod
    def of(
        cls,
        kernel: int | Pair,
        stride: int | Pair,
        padding: Padding,
        *,
        ceil: bool = False,
        dilation: int | Pair = 1,
    ) -> Window:
        """Create a window from sizes that may be given once for both axes and all sides.

        Parameters
        ----------
        kernel, stride : int or pair of int
            Height and width of the window and of its steps.
        padding : int, or 2 or 4 int
            Padding of all sides, of (height, width), or above, left, below, right.
        ceil : bool
            Whether a last window may extend beyond the padded map.
        dilation : int or pair of int
            Distances between the taps.
        """
        sides = _pair(padding) if isinstance(padding, int) else padding
        return cls(_pair(kernel), _pair(stride), (sides * 2)[:4], ceil, _pair(dilation))

    def output_size(self, size: Sequence[int]) -> Pair:
        """Return the (height, width) of the result for a map of this size.

        Raises
        ------
        ModelError
            If the window does not fit into the padded map.
        """
        height, width = (
            (size[i] + self.padding[i] + self.padding[i + 2] - self._extent(i) + self._spare(i))
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

    def _extent(self, axis: int) -> int:
        """Return how far the window reaches."""
        return (self.kernel[axis] - 1) * self.dilation[axis] + 1

    def _spare(self, axis: int) -> int:
        """Return how far the last window may extend beyond the padded map."""
        return self.stride[axis] - 1 if self.ceil else 0


def _pair(extent: int | Pair) -> Pair:
    return (extent, extent) if isinstance(extent, int) else extent
