# SPDX-License-Identifier: Apache-2.0
"""The windows of convolutions and poolings along each axis, by ONNX's attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..node_emitter import NodeEmitter

Sizes = Sequence[int]
WINDOW = frozenset(("auto_pad", "dilations", "kernel_shape", "pads", "strides"))
AUTOMATIC = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


@dataclass(frozen=True)
class Window:
    """A window that moves along some axes.

    Attributes
    ----------
    kernel, strides, dilations : list of int
    before, after : list of int
        The padding of each axis.
    """

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    before: list[int]
    after: list[int]

    @property
    def padding(self) -> list[int]:
        """All numbers before, then all behind."""
        return [*self.before, *self.after]

    @property
    def extents(self) -> list[int]:
        """How many elements the window covers, with its holes."""
        return [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]

    def counts(self, sizes: Sizes, ceil: bool = False) -> list[int]:
        """Return the number of places along each axis.

        Parameters
        ----------
        sizes : sequence of int
        ceil : bool
            Whether a window may reach beyond the padding; one that begins behind the data does not
            count.
        """
        return [
            _count(size, extent, stride, before, after, ceil)
            for size, extent, stride, before, after in zip(
                sizes, self.extents, self.strides, self.before, self.after, strict=True
            )
        ]


def _count(size: int, extent: int, stride: int, before: int, after: int, ceil: bool) -> int:
    free = size + before + after - extent
    if not ceil:
        return free // stride + 1
    count = -(-free // stride) + 1
    return count - 1 if (count - 1) * stride >= size + before else count


def window_of(
    emit: NodeEmitter,
    sizes: Sizes,
    weights: Sizes | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sizes | None = None,
    kernel_shape: Sizes | None = None,
    pads: Sizes | None = None,
    strides: Sizes | None = None,
) -> Window:
    """Return the window that the attributes of a node say.

    Parameters
    ----------
    emit : NodeEmitter
    sizes : sequence of int
        Of the data, along each axis.
    weights : sequence of int, optional
        Of a window that has weights.
    auto_pad, dilations, kernel_shape, pads, strides
        As in ONNX; :data:`WINDOW` has their names.

    Raises
    ------
    ModelError
        If they do not fit each other.
    """
    kernel = kernel_shape if weights is None else weights
    if kernel is None:
        raise emit.error("needs the attribute kernel_shape.")
    if kernel_shape is not None and list(kernel_shape) != list(kernel):
        raise emit.error(f"has kernel_shape={list(kernel_shape)}, but a kernel of {list(kernel)}.")
    rank = len(sizes)
    steps, holes = list(strides or [1] * rank), list(dilations or [1] * rank)
    around = list(pads or [0] * (2 * rank))
    for name, numbers, count in (
        ("kernel_shape", kernel, rank),
        ("strides", steps, rank),
        ("dilations", holes, rank),
        ("pads", around, 2 * rank),
    ):
        least = 0 if name == "pads" else 1
        if len(numbers) != count or min(numbers, default=least) < least:
            raise emit.error(f"has {name}={list(numbers)} for {rank} axes.")
    if auto_pad not in AUTOMATIC:
        raise emit.error(f"has auto_pad={auto_pad!r}; there are: {', '.join(AUTOMATIC)}.")
    window = Window(list(kernel), steps, holes, around[:rank], around[rank:])
    if auto_pad == "NOTSET":
        return window
    total = [0] * rank
    if auto_pad != "VALID":
        total = [
            max((-(-size // step) - 1) * step + extent - size, 0)
            for size, step, extent in zip(sizes, steps, window.extents, strict=True)
        ]
    half = [number // 2 for number in total]
    rest = [number - less for number, less in zip(total, half, strict=True)]
    before, after = (rest, half) if auto_pad == "SAME_LOWER" else (half, rest)
    return Window(window.kernel, steps, holes, before, after)
