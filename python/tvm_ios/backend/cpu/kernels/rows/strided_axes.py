# SPDX-License-Identifier: Apache-2.0
"""What an elementwise operation on tensors with arbitrary strides reads, and its axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .....ops.epilogue import NOTHING, Epilogue
from .....ops.strides import Strides
from .....sizes.size import AnyShape, AnySize, hint_of, is_open


@dataclass(frozen=True)
class StridedMap:
    """An epilogue on a tensor that is read by ``source``; the result has ``shape``.

    ``arguments`` are the strides of the epilogue's tensor arguments.
    """

    shape: AnyShape
    source: Strides
    epilogue: Epilogue = NOTHING
    arguments: tuple[Strides, ...] = ()

    @property
    def reads(self) -> tuple[Strides, ...]:
        """The strides of all tensors that are read."""
        return (self.source, *self.arguments)

    @property
    def opened(self) -> bool:
        """Whether a size, a stride or an offset is open."""
        numbers = (n for read in self.reads for n in (read.size, *read.steps, read.offset))
        return is_open(self.shape) or is_open(numbers)

    def part(self, line: int) -> tuple[int, StridedMap]:
        """Return the same map of the part of its source that it reads, and where that begins.

        Parts begin at multiples of ``line`` elements, so that equal slices of a tensor become equal
        maps wherever they begin. Of what is known only when a network runs the part is the whole.
        """
        read = self.source
        numbers = (*self.shape, read.size, read.offset, *read.steps)
        if self.opened or not all(isinstance(n, int) for n in numbers):
            return 0, self
        reach = [
            (hint_of(size) - 1) * hint_of(step)
            for size, step in zip(self.shape, read.steps, strict=True)
        ]
        offset = hint_of(read.offset)
        first = offset + sum(min(0, distance) for distance in reach)
        last = offset + sum(max(0, distance) for distance in reach)
        if not 0 <= first <= last < hint_of(read.size):
            return 0, self
        begin = first - first % line
        source = Strides(last + 1 - begin, read.steps, offset - begin)
        return begin, replace(self, source=source)


@dataclass(frozen=True)
class Axis:
    """An axis of the result with the strides of all reads along it."""

    size: AnySize
    steps: AnyShape


def merge_axes(strided: StridedMap) -> list[Axis]:
    """Return the result's axes without those of extent 1, contiguous neighbours merged."""
    axes = [Axis(1, tuple(0 for _ in strided.reads))]
    for i, size in enumerate(strided.shape):
        axis = Axis(size, tuple(read.steps[i] for read in strided.reads))
        last = axes[-1]
        if size == 1:
            continue
        if last.size == 1:
            axes[-1] = axis
        elif last.steps == tuple(step * size for step in axis.steps):
            axes[-1] = Axis(last.size * size, axis.steps)
        else:
            axes.append(axis)
    return axes


def crosses(axes: Sequence[Axis]) -> bool:
    """Return whether the source is contiguous along an axis that is not the last."""
    return axes[-1].steps[0] not in (0, 1) and any(axis.steps[0] == 1 for axis in axes[:-1])
