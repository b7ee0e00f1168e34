# SPDX-License-Identifier: Apache-2.0
"""Footprints: the bytes of a kernel's tensors that a range of its tiles reads and writes.

They follow from how the tiles cover planes. A footprint may be larger than what is accessed, but
never smaller. Of a kernel without planes, every tile may access all bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ....ops.tensor import TensorSpec
from .kernel import Kernel
from .plane import Interval, PlaneTiles


class Accessed(NamedTuple):
    """The tensors that a phase accesses, by their positions among the kernel's tensors."""

    read: frozenset[int]
    written: frozenset[int]


class Runs(NamedTuple):
    """Bytes of a tensor: ``number`` runs of ``size`` bytes, of which each begins ``stride`` bytes
    after the one before it."""

    begin: int
    size: int
    stride: int = 0
    number: int = 1


class MemoryAccess(NamedTuple):
    """An access to a tensor of a kernel.

    Attributes
    ----------
    tensor : int
        Its position among the kernel's tensors.
    runs : Runs
    writes : bool
        Whether the bytes are written; they may be read, too.
    """

    tensor: int
    runs: Runs
    writes: bool


def footprint(kernel: Kernel, tiles: Interval, accessed: Accessed) -> Iterator[MemoryAccess]:
    """Yield the accesses of the tiles ``tiles[0]`` to ``tiles[1]`` of a phase of a kernel.

    Parameters
    ----------
    kernel : Kernel
    tiles : Interval
    accessed : Accessed
        The tensors that the phase reads and writes.
    """
    if tiles[0] == tiles[1]:
        return
    plane = kernel.plane
    if plane is None:
        yield from _everything(kernel, accessed)
        return
    (begin, first), (end, last) = (divmod(tile, plane.num_tiles) for tile in tiles)
    if begin == end:
        yield from _box(kernel, plane, (begin, begin + 1), (first, last))
        return
    if first:
        yield from _box(kernel, plane, (begin, begin + 1), (first, plane.num_tiles))
        begin += 1
    if begin < end:
        yield from _box(kernel, plane, (begin, end), (0, plane.num_tiles))
    if last:
        yield from _box(kernel, plane, (end, end + 1), (0, last))


def strip_footprint(kernel: Kernel, tiles: Interval) -> Iterator[MemoryAccess]:
    """Yield the accesses of the same tiles of every plane of a kernel."""
    plane = kernel.strip_plane
    yield from _box(kernel, plane, (0, plane.outer), tiles)


def _everything(kernel: Kernel, accessed: Accessed) -> Iterator[MemoryAccess]:
    for tensor, spec in enumerate(kernel.tensors):
        if tensor in accessed.written:
            yield MemoryAccess(tensor, _whole(spec), True)
        elif tensor in accessed.read:
            yield MemoryAccess(tensor, _whole(spec), False)


def _box(
    kernel: Kernel, plane: PlaneTiles, outer: Interval, tiles: Interval
) -> Iterator[MemoryAccess]:
    """Yield the accesses of some tiles of some planes."""
    pixels = plane.pixels_of(tiles)
    image, *others = kernel.inputs
    read, source = _source_blocks(plane, outer, image), plane.read(tiles)
    if source[0] < source[1]:  # rows of results may lie in the padding alone
        yield MemoryAccess(0, _part(image, plane, read, source, plane.source_pixels), False)
    written = list(_result_blocks(plane, outer, kernel.outputs))
    for tensor, spec in enumerate(others, 1):
        same = spec == kernel.outputs[0]
        runs = _part(spec, plane, written[0], pixels, plane.pixels) if same else _whole(spec)
        yield MemoryAccess(tensor, runs, False)
    for tensor, spec in enumerate(kernel.outputs, len(kernel.inputs)):
        blocks = written[tensor - len(kernel.inputs)]
        if blocks[0] < blocks[1]:
            yield MemoryAccess(tensor, _part(spec, plane, blocks, pixels, plane.pixels), True)


def _source_blocks(plane: PlaneTiles, outer: Interval, spec: TensorSpec) -> Interval:
    """Return the blocks of the first input that some planes read; a matrix is one block."""
    if plane.matrix:
        return 0, 1
    if plane.channelwise:
        return next(iter(_result_blocks(plane, outer, [spec])))
    chunks, per_image = plane.outer // plane.images, spec.shape[1]
    return outer[0] // chunks * per_image, -(-outer[1] // chunks) * per_image


def _result_blocks(
    plane: PlaneTiles, outer: Interval, outputs: Sequence[TensorSpec]
) -> Iterator[Interval]:
    """Yield the blocks of each output that some planes hold."""
    chunks = plane.outer // plane.images
    for number, spec in enumerate(outputs):
        if plane.matrix:
            yield 0, 1
        elif not plane.blocks or (len(outputs) > 1 and plane.images > 1):
            yield 0, math.prod(spec.shape[:2])
        else:
            before = sum(output.shape[1] for output in outputs[:number])
            begin, end = (
                image * spec.shape[1] + _clamp(plane.blocks[chunk] - before, spec.shape[1])
                for image, chunk in (divmod(edge, chunks) for edge in outer)
            )
            yield begin, end


def _clamp(number: int, most: int) -> int:
    return min(max(number, 0), most)


def _part(
    spec: TensorSpec, plane: PlaneTiles, blocks: Interval, pixels: Interval, per_plane: int
) -> Runs:
    """Return some pixels of some blocks of a tensor that has ``per_plane`` pixels in each."""
    count = 1 if plane.matrix else math.prod(spec.shape[:2])
    stride = spec.num_bytes // count
    pixel = stride // per_plane
    assert pixel * per_plane * count == spec.num_bytes, "pixels divide a tensor"
    size = (pixels[1] - pixels[0]) * pixel
    begin, number = blocks[0] * stride + pixels[0] * pixel, blocks[1] - blocks[0]
    return Runs(begin, size * number) if size == stride else Runs(begin, size, stride, number)


def _whole(spec: TensorSpec) -> Runs:
    return Runs(0, spec.num_bytes)
