# SPDX-License-Identifier: Apache-2.0
"""Convolution by Winograd's minimal filtering, along one axis or both.

The output is cut into tiles of ``m`` x ``m``, each computed from ``n`` x ``n`` inputs; along an
axis of one tap, ``m`` and ``n`` are 1. The inputs of a tile are transformed to as many points, each
of which is a vector of channels. At each point, the matrix of all tiles is multiplied by the matrix
of the weights, which are transformed at compile time. The products are transformed to outputs while
they are in the core's L1 cache.

A *strip* is as many tiles as one set of registers multiplies. A *chunk* is as many blocks of output
channels. If there are many strips, a worker computes each strip from its inputs to its outputs, and
the intermediate values stay in its cache (``fused``). If there are few, a first phase transforms
all inputs, and the second phase works on a group of strips of one chunk at a time. Groups vary
fastest, so that a chunk's weights, which are large, come from memory once. The strips of a group
are multiplied by the weights of one point after another: if a chunk's weights exceed the cache,
those of a point do not.

An image that folds (:mod:`.fold`) is computed row of tiles by row of tiles, see
:mod:`.image`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm.tirx.script import builder as T

from .....ops.tensor import TensorSpec
from ...core import Core
from ...isa.emit import bind, lanes_of
from ..conv.fold import fold_weights, folded, folds
from ..conv.shape import Conv2d
from ..kernel import SHARES, Kernel, Phase, Weights, phase
from ..layout import Layout, blocks
from .emitter import WinogradEmitter
from .image import ImageEmitter
from .model import WinogradTiling, winograd_times
from .open_image import OpenImageEmitter
from .products import PrefetchTarget, Strips
from .tiles import Pixel
from .transform import transforms

Expr = Any


def pack_winograd(
    weights: np.ndarray, conv: Conv2d, tiling: WinogradTiling, lanes: int
) -> np.ndarray:
    """Transform and pack weights ``[K, C, R, S]`` in the order in which the kernel reads them.

    Parameters
    ----------
    weights : numpy.ndarray
        Weights, ``[K, C, R, S]``.
    conv : Conv2d
        The convolution.
    tiling : WinogradTiling
        The tiling of the kernel that reads them.
    lanes : int
        Elements of a vector.

    Returns
    -------
    numpy.ndarray
        ``[points, C, b, lanes]`` of each chunk of ``b`` blocks of output channels, one after
        another. Points are in column-major order.
    """
    if folds(conv.hinted):
        return pack_winograd(fold_weights(weights, conv), folded(conv), tiling, lanes)
    down, across = transforms(conv, tiling.outputs)
    matrix, chunk = np.kron(across.filter, down.filter), tiling.registers.nr
    k, c = weights.shape[:2]
    padded = np.zeros((blocks(k, lanes) * lanes, c, *weights.shape[2:]), weights.dtype)
    padded[:k] = weights
    taps = padded.swapaxes(2, 3).reshape(-1, lanes, c, matrix.shape[1])
    parts = []
    for first in range(0, len(taps), chunk):
        points = taps[first : first + chunk].astype("float64") @ matrix.T
        parts.append(points.transpose(3, 2, 0, 1).astype("float32").ravel())
    return np.concatenate(parts)


def winograd_kernel(conv: Conv2d, tiling: WinogradTiling, source: Layout, core: Core) -> Kernel:
    """Return the kernel of a convolution whose windows have :func:`.tile_sizes`.

    The kernel's inputs are the feature map, the weights as :func:`pack_winograd` leaves them and
    the epilogue's arguments.

    Parameters
    ----------
    conv : Conv2d
        The convolution.
    tiling : WinogradTiling
        How the kernel cuts it.
    source : Layout
        Layout of the feature map: row-major if it folds, else blocked by ``core.lanes``.
    core : Core
        The core that runs the kernel.

    Returns
    -------
    Kernel
        A kernel of one phase if the tiling is fused, else of two phases. Its result and other
        inputs are blocked by ``core.lanes``.
    """
    image = folds(conv.hinted)
    assert source.block == (0 if image else core.lanes), "a block of channels is one vector"
    of_image = OpenImageEmitter if conv.is_open else ImageEmitter
    emitter = (of_image if image else _MapEmitter)(conv, tiling, core)
    layout = Layout(core.lanes)
    shape = (conv.batch, conv.channels, conv.rows.size, conv.columns.size)
    result = (conv.batch, *conv.out_channels, conv.rows.out, conv.columns.out)
    arguments = {"channel": (1, *conv.out_channels, 1, 1), "full": result}
    return Kernel(
        name="conv2d_winograd",
        key=("winograd", conv, tiling, source, core),
        inputs=(
            source.spec(shape),
            TensorSpec((emitter.out_blocks * emitter.block_elements,)),
            *(layout.spec(arguments[kind]) for kind in conv.epilogue.arguments),
        ),
        outputs=(layout.spec(result),),
        scratch=() if tiling.fused else (TensorSpec(emitter.transformed(emitter.strips)),),
        phases=emitter.phases(),
        plane=emitter.plane,
        order="rows" if tiling.fused else "channels",
        narrows=True,
    )


class _MapEmitter(WinogradEmitter):
    """The code of a convolution of a blocked feature map."""

    plane = None  # its strips are no rows

    def phases(self) -> tuple[Phase, ...]:
        if self.tiling.fused:
            return (phase(self.strips, self._emit_fused, weights=Weights(1, lambda _: 0)),)
        times = winograd_times(self.conv.hinted, self.tiling, self.core)
        return (
            phase(self.tiles.count * self.in_blocks, self._emit_inputs, work=times.inputs),
            phase(
                self.groups * self.chunks,
                self._emit_products,
                work=times.products,
                weights=Weights(1, self._first_weight, prefetches=True),
            ),
        )

    def _first_weight(self, tile: int) -> int:
        """Return the element at which the weights of a chunk begin."""
        if isinstance(self.groups, int):
            chunk = tile // self.groups
        else:  # it is one of the shares
            chunk = tile * self.chunks // SHARES
        return chunk * self.chunk * self.block_elements

    def _emit_fused(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        """Emit a range of strips, each from its inputs to its outputs."""
        bound, transformed, products = self.bind(buffers), self.one_strip(), self.products()
        with T.serial(begin, begin + extent) as strip:
            strips = Strips(strip, 1, kept=True, num_tiles=self.tiles.count)
            self.transform_strip(self._pixel(bound.image), transformed, strips)
            self.emit_chunks(bound, transformed, products, strips)

    def _emit_inputs(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        """Emit the transforms of the inputs; the unit is one tile of one block of channels."""
        pixel = self._pixel(buffers[0])
        with T.serial(begin, begin + extent) as t:
            block, tile = bind(t // self.tiles.count), bind(t % self.tiles.count)
            strip, i = bind(tile // self.strip), bind(tile % self.strip)
            if isinstance(self.tiles.count, int):
                self.transform(pixel, buffers[-1], strip, block, tile, i)
            else:
                end = bind(T.Select(tile + 1 == self.tiles.count, self.filled(i + 1), i + 1))
                with T.serial(i, end) as slot:
                    self.transform(pixel, buffers[-1], strip, block, tile, slot)

    def _emit_products(
        self, buffers: Sequence[Any], begin: Expr, extent: Expr, prefetch_target: Expr | None = None
    ) -> None:
        """Emit the products and the outputs; the unit is one group of strips of one chunk."""
        bound, products, size = self.bind(buffers), self.products(), self.tiling.group
        with T.serial(begin, begin + extent) as t:
            chunk, group = bind(t // self.groups), bind(t % self.groups)
            more = bind(T.Select(t - group + self.groups < begin + extent, 1, 0))
            first = bind(group * size)
            count = bind(T.min(size, self.strips - first)) if size > 1 else 1
            strips = Strips(first, count, kept=False, num_tiles=self.tiles.count)
            target = PrefetchTarget(more, prefetch_target)
            self.emit_chunk(bound, buffers[-1], products, strips, chunk, target)

    def _pixel(self, image: Any) -> Pixel:
        """Return how a feature map is read."""
        wide, vector = self.conv.columns.size, lanes_of(0, self.lanes)
        return lambda n, block, y, x: image[n, block, y * wide + x, vector]
