# SPDX-License-Identifier: Apache-2.0
"""The geometry of a convolution, and the tensors and register tiles that follow from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .....ops.epilogue import NOTHING, Broadcast, Epilogue
from .....ops.tensor import TensorSpec
from .....ops.window import Window
from .....sizes.arithmetic import ceil_div
from .....sizes.size import AnySize, hint_of, is_open
from ...core import Core
from ...isa.storage import viewed
from ..factors import Factors, Multiplication
from ..layout import Layout, blocks
from ..plane import segment_tiles
from ..taps import tap_groups
from ..tiling import RegisterTile, choose_tile, tile_matmul_register_tile

Expr = Any

_SCALES = 0.4, 1.0, 1.5  # of the height and the width that are assumed
_BATCHES = 1, 4  # times the batch that is assumed


@dataclass(frozen=True)
class Conv2d:
    """The geometry of a convolution.

    Attributes
    ----------
    batch : int or Size
        Images of the input.
    channels : int
        Channels of the input, of all groups.
    rows, columns : Window
        How the kernel slides over height and width.
    out_channels : tuple of int
        Output channels of each result. Several results stand for several convolutions that read the
        same input through kernels of one size and are merged into one (the ``merge`` strategy).
        Their channels are computed side by side, and each result is written to its own tensor
        without a copy.
    groups : int
    epilogue : Epilogue
        The epilogue, computed on each result in registers. With several results, all its arguments
        are per channel.
    """

    batch: AnySize
    channels: int
    rows: Window
    columns: Window
    out_channels: tuple[int, ...]
    groups: int = 1
    epilogue: Epilogue = NOTHING

    @property
    def pointwise(self) -> bool:
        """Whether the convolution is a matrix product over all pixels."""
        axes = (self.rows, self.columns)
        return all(a.kernel == 1 and a.stride == 1 and not a.padded for a in axes)

    @property
    def is_open(self) -> bool:
        """Whether a size is known only at run time."""
        axes = (self.rows, self.columns)
        return is_open((self.batch, *(size for a in axes for size in (a.size, a.out))))

    @property
    def hinted(self) -> Conv2d:
        """The convolution of the sizes that are assumed."""
        rows, columns = self.rows.hinted, self.columns.hinted
        return replace(self, batch=hint_of(self.batch), rows=rows, columns=columns)

    @property
    def examples(self) -> tuple[Conv2d, ...]:
        """The convolution of smaller and larger images, and batches, than are assumed.

        A kernel of open sizes should be fast for all of them. Of known sizes there is one.
        """
        known = self.hinted
        axes = [is_open((axis.size, axis.out)) for axis in (self.rows, self.columns)]
        return tuple(
            replace(
                known,
                batch=count * known.batch,
                rows=_scaled(known.rows, scale if axes[0] else 1.0),
                columns=_scaled(known.columns, scale if axes[1] else 1.0),
            )
            for scale in (_SCALES if any(axes) else (1.0,))
            for count in (_BATCHES if is_open((self.batch,)) else (1,))
        )


def _scaled(window: Window, scale: float) -> Window:
    """Return a window over an axis of another length, with the same padding."""
    out = max(1, round(scale * window.out))
    difference = (out - window.out) * window.stride
    return replace(window, size=max(1, window.size + difference), out=out)


class ConvShape:
    """The tensors and the register tile of a convolution.

    A convolution that shares its tiles with others takes ``tile`` from the caller, and ``flat`` if
    all of them are pointwise: only then do the pixels of a plane form one row.

    A step of the reduction multiplies a channel, or several neighbouring ones: see :data:`Factors`.
    The lowest value ``low`` of a feature map of bytes is added to what is stored, and so is what
    the multiplication subtracts.
    """

    def __init__(
        self,
        conv: Conv2d,
        source: Layout,
        result: Layout,
        core: Core,
        *,
        flat: bool | None = None,
        tile: RegisterTile | None = None,
        factors: Factors = "single",
        low: int = 0,
    ) -> None:
        assert result.block == core.lanes, "an output block is one vector"
        self.multiplication = Multiplication.of(factors, core)
        step = self.multiplication.step
        together = step == 1 or source.block % step == 0 < source.block
        assert together, "what is multiplied in a step lies in a block"
        self.conv, self.source, self.result = conv, source, result
        self.lanes, self.factors, self.core = core.lanes, factors, core
        self.low = low + self.multiplication.offset
        self.padding = -low  # zero, as it is stored
        self.vector = core.lanes * self.multiplication.words
        self.in_block = (source.block or 1) // step
        group_channels = conv.channels // conv.groups
        self.steps = blocks(group_channels, step)
        # The last channel has no other one. In blocks narrower than a vector, which are those of
        # images, that one is zero. Whatever a byte is, its product with a weight of zero is zero.
        bf16 = factors == "pairs"
        self.lone = bf16 and group_channels % 2 == 1 and source.block == core.lanes
        self.result_blocks = [blocks(k, self.lanes) for k in conv.out_channels]
        self.rows, self.columns = conv.rows, conv.columns
        self.flat = conv.pointwise if flat is None else flat
        if self.flat:
            pixels = self.rows.out * self.columns.out
            self.rows, self.columns = Window(1, 1, 1), Window(pixels, pixels, 1)
        self.group_blocks = sum(self.result_blocks) // conv.groups
        blocked = source.block == core.lanes
        self.tile_matmul = core.tile_matmul if factors == "pairs" and blocked else None
        self.tile = tile or self._choose_tile(core)
        self.taps = tap_groups(core, self.columns)
        self.far_weights = 4 * math.prod(self.weights_shape) > core.l1_bytes
        self.chunks = blocks(sum(self.result_blocks), self.tile.nr)
        whole = segment_tiles(self.rows, self.columns, self.tile.mr)
        self.segment = None if self.flat else whole
        length = self.tile.mr * (self.segment or 1)
        self.by_columns = self.flat or self.segment is not None
        self.plane_tiles = ceil_div(self.columns.out, length) if self.by_columns else self.rows.out
        self.num_tiles = conv.batch * self.chunks * self.plane_tiles

    def _choose_tile(self, core: Core) -> RegisterTile:
        """Choose the register tile for the weights of one chunk."""
        columns = hint_of(self.columns.out)
        if self.tile_matmul:
            count, equal = self.group_blocks, self.conv.groups > 1
            return tile_matmul_register_tile(self.tile_matmul, columns, count, equal)
        block_bytes = 4 * math.prod(self.weights_shape[1:])
        return choose_tile(
            core,
            self._lengths() if self.conv.is_open else columns,
            self.group_blocks,
            window=self.columns,
            block_bytes=block_bytes,
            equal=self.conv.groups > 1,
            spare=self.multiplication.spare,
            split=self.multiplication.split,
        )

    def _lengths(self) -> list[int]:
        """Return examples of the columns of an open row."""
        examples = dict.fromkeys((c.rows.out, c.columns.out) for c in self.conv.examples)
        return [rows * columns if self.flat else columns for rows, columns in examples]

    @property
    def weights_shape(self) -> tuple[int, ...]:
        """The shape of the packed weights: of float32, or of operands of a dot2 or dot4."""
        return (
            sum(self.result_blocks),
            blocks(self.steps, self.in_block),
            self.conv.rows.kernel,
            self.in_block,
            self.conv.columns.kernel,
            self.vector,
        )

    def input_specs(self) -> tuple[TensorSpec, ...]:
        """Return the feature map, the packed weights and the epilogue's arguments.

        Behind the weights of bytes is what the lowest value of the feature map adds at each tap,
        unless it is zero.
        """
        conv = self.conv
        image = (conv.batch, conv.channels, conv.rows.size, conv.columns.size)
        arguments = map(self.argument_spec, conv.epilogue.arguments)
        multiplication = self.multiplication
        shape = self.weights_shape
        if multiplication.step > 1:
            shape = (*shape, multiplication.step // multiplication.words)
        weights = TensorSpec(shape, multiplication.right)
        lowest = [TensorSpec(self.taps_shape, "int32")] if self.low else []
        return (self.source.spec(image, multiplication.left), weights, *lowest, *arguments)

    def argument_spec(self, kind: Broadcast) -> TensorSpec:
        """Return the tensor of an argument of the epilogue."""
        conv, channels = self.conv, sum(self.result_blocks) * self.lanes
        if kind == "channel":
            return self.result.spec((1, channels, 1, 1))
        assert kind == "full", "sums are combined with maps like them"
        return self.result.spec((conv.batch, channels, conv.rows.out, conv.columns.out))

    @property
    def taps_shape(self) -> tuple[int, ...]:
        """The shape of what the lowest value of the feature map adds at each tap, and in a row."""
        kernels = self.conv.rows.kernel, self.conv.columns.kernel + 1
        return (sum(self.result_blocks), *kernels, self.lanes)

    def operands(self, buffers: Sequence[Any]) -> tuple[Any, Any]:
        """Return the feature map and the weights, as what a step multiplies."""
        image, weights = buffers[:2]
        shape, step = self.input_specs()[0].shape, self.multiplication.step
        if self.conv.is_open and self.flat and not self.source.block:
            shape = (*shape[:2], self.columns.size)
            image = viewed(image, shape)
        if step > 1:
            shape = (*shape[:-1], shape[-1] // step)
        together = self.multiplication.together
        return together(image, shape), together(weights, self.weights_shape)

    def output_specs(self) -> tuple[TensorSpec, ...]:
        """Return the results."""
        conv = self.conv
        size = (conv.rows.out, conv.columns.out)
        return tuple(self.result.spec((conv.batch, k, *size)) for k in conv.out_channels)
