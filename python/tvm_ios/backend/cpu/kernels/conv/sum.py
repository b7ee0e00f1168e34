# SPDX-License-Identifier: Apache-2.0
"""The sum of several convolutions with different inputs and windows, added up in registers.

``conv(x, V) + conv(y, W)`` is one convolution over the channels of x and y together. No
concatenation is needed for it: a tile's sums run over the channels and taps of the first input and
then over those of the second. The result of the first convolution alone is never stored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from .....ops.epilogue import Epilogue
from .....ops.tir_function import tile_scope
from ...core import Core
from ..factors import Factors
from ..kernel import Kernel, phase
from ..layout import Layout
from ..taps import ColumnTile
from .conv2d import ConvEmitter
from .shape import Conv2d
from .tile import ConvBuffers, ConvTile

Expr = Any


def conv2d_sum_kernel(
    convs: Sequence[Conv2d],
    epilogue: Epilogue,
    in_layouts: Sequence[Layout],
    out_layout: Layout,
    core: Core,
    *,
    factors: Factors = "single",
) -> Kernel:
    """Return the kernel of a sum of convolutions followed by an epilogue.

    The kernel's inputs are the feature map and the packed weights of the first convolution, those
    of the second, and so on, then the epilogue's arguments, all as in
    :func:`~.conv2d.conv2d_kernel`.

    Parameters
    ----------
    convs : sequence of Conv2d
        The convolutions, each with one group and one result, all results of one shape.
    epilogue : Epilogue
        The epilogue of the sum.
    in_layouts : sequence of Layout
        Layout of each convolution's feature map.
    out_layout : Layout
        Layout of the result, blocked by ``core.lanes``.
    core : Core
        The core that runs the kernel.
    factors : Factors
        What is multiplied: float32, or bfloat16 by bf16 dot2.

    Returns
    -------
    Kernel
        A kernel of one phase with one output.
    """
    results = {(c.batch, c.out_channels, c.rows.out, c.columns.out) for c in convs}
    assert len(results) == 1, "the summands have one shape"
    assert all(c.groups == 1 and len(c.out_channels) == 1 for c in convs), "one result each"
    # The first one also stores the sum, so it carries the epilogue.
    first, *others = (replace(conv, epilogue=Epilogue()) for conv in convs)
    convs = (replace(first, epilogue=epilogue), *others)
    emitter = _SumEmitter(convs, in_layouts, out_layout, core, factors)
    feature_maps = [spec for part in emitter.parts for spec in part.input_specs()[:2]]
    lead = emitter.parts[0]
    return Kernel(
        name="conv2d_sum",
        key=("conv2d_sum", convs, tuple(in_layouts), out_layout, core, factors),
        inputs=(*feature_maps, *lead.input_specs()[2:]),
        outputs=lead.output_specs(),
        phases=(phase(lead.num_tiles, emitter.emit, sources=lead.tile_type.sources(lead)),),
        narrows=True,
    )


class _SumEmitter:
    """The code of a sum of convolutions; its tiles are those of a single convolution."""

    def __init__(
        self,
        convs: Sequence[Conv2d],
        in_layouts: Sequence[Layout],
        out_layout: Layout,
        core: Core,
        factors: Factors,
    ) -> None:
        flat = all(conv.pointwise for conv in convs)
        if any(layout.block != core.lanes for layout in in_layouts):  # one kind of tile for all
            core = replace(core, tile_matmul=None)
        part = partial(ConvEmitter, core=core, factors=factors, flat=flat)
        pairs = list(zip(convs, in_layouts, strict=True))
        apart = [part(conv, layout, out_layout) for conv, layout in pairs]
        # A tile that fits the taps of the widest window fits those of the others.
        widest = max(apart, key=lambda part: (len(part.taps[0]), _num_weights(part)))
        self.parts = [part(conv, layout, out_layout, tile=widest.tile) for conv, layout in pairs]

    def emit(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        lead, fed = self.parts[0], 2 * len(self.parts)
        count = fed + len(lead.conv.epilogue.arguments)
        bound = [
            ConvBuffers(*part.operands(buffers[i : i + 2]), buffers[fed:count], buffers[count:])
            for part, i in zip(self.parts, range(0, fed, 2), strict=True)
        ]

        def place(image: Expr, block: Expr, b: int, place: Expr, next_block: Expr) -> None:
            row = 0 if lead.by_columns else place
            tiles = [
                part.tile_type(part, own, image, block, b, row, next_block)
                for part, own in zip(self.parts, bound, strict=True)
            ]
            windows = [part.columns for part in self.parts[1:]]
            lead.emit_columns(place, lambda first, tile: _emit(tiles, first, tile), windows)

        lead.emit_tiles(begin, extent, place)


def _emit(tiles: Sequence[ConvTile], first: Expr, tile: ColumnTile) -> None:
    """Emit one register tile: the sums of all convolutions one after another, then the results."""
    lead = tiles[0]
    with tile_scope():
        registers = lead.accumulators(tile.width)
        for part in tiles:
            part.reduce(registers, first, tile.through(part.conv.columns))
        lead.store(registers, first, tile.width)


def _num_weights(part: ConvEmitter) -> int:
    return math.prod(part.input_specs()[1].shape)
