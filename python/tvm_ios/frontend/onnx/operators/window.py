# SPDX-License-Identifier: Apache-2.0
"""The windows of convolutions and poolings along each axis, by ONNX's attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvm import relax

from ....sizes.arithmetic import ceil_div, largest, smallest
from ....sizes.size import AnySize, is_open
from ..node_emitter import NodeEmitter
from .parts import padded_by_places

Sizes = Sequence[AnySize]
WINDOW = frozenset(("auto_pad", "dilations", "kernel_shape", "pads", "strides"))
AUTOMATIC = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


@dataclass(frozen=True)
class Window:
    """A window that moves along some axes.

    Attributes
    ----------
    kernel, strides, dilations : list of int
    before, after : list of sizes
        The padding of each axis.
    """

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    before: list[AnySize]
    after: list[AnySize]

    @property
    def padding(self) -> list[AnySize]:
        """All numbers before, then all behind."""
        return [*self.before, *self.after]

    @property
    def extents(self) -> list[int]:
        """How many elements the window covers, with its holes."""
        return [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]

    def counts(self, sizes: Sizes, ceil: bool = False) -> list[AnySize]:
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


def _count(
    size: AnySize, extent: int, stride: int, before: AnySize, after: AnySize, ceil: bool
) -> AnySize:
    free = size + before + after - extent
    if not ceil:
        return free // stride + 1
    return smallest(ceil_div(free, stride) + 1, ceil_div(size + before, stride))


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
    if is_open(kernel):
        raise emit.error(f"has a kernel of {list(kernel)}, whose sizes must not be open.")
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
            largest(_missing(emit, size, step, extent), 0)
            for size, step, extent in zip(sizes, steps, window.extents, strict=True)
        ]
    half = [number // 2 for number in total]
    rest = [number - less for number, less in zip(total, half, strict=True)]
    before, after = (rest, half) if auto_pad == "SAME_LOWER" else (half, rest)
    return Window(window.kernel, steps, holes, before, after)


def _missing(emit: NodeEmitter, size: AnySize, step: int, extent: int) -> AnySize:
    """Return how much padding windows need that begin with each ``step`` elements.

    Windows that leave out elements at the end of the data need less than none. By ONNX's definition
    they begin with the first element; ONNX Runtime lets them begin later, and takes other elements.
    """
    missing = (ceil_div(size, step) - 1) * step + extent - size
    if (extent - step if is_open((missing,)) else missing) < -1:
        raise emit.error(
            f"has auto_pad, and a stride of {step} beyond its window of {extent}, for which there "
            "are several definitions; give pads instead."
        )
    return missing


def with_known_padding(
    emit: NodeEmitter, data: relax.Expr, window: Window, value: float
) -> tuple[relax.Expr, Window]:
    """Return data that are padded where that depends on open sizes, and a window without it."""
    if not is_open(window.padding):
        return data, window
    pads = zip(window.before, window.after, strict=True)
    widths = {2 + axis: pair for axis, pair in enumerate(pads)}
    none: list[AnySize] = [0] * len(window.before)
    padded = padded_by_places(emit, data, widths, "constant", value)
    return padded, replace(window, before=none, after=none)
