# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers: a tile is all steps of some rows of the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm.tirx.script import builder as T

from .....ops.recurrence import Recurrence
from .....ops.tensor import TensorSpec
from .....ops.tir_function import tile_scope
from .....sizes.size import Size
from ...core import Core
from ...isa.emit import bind, select
from ..kernel import Kernel, Phase
from ..layout import blocks
from ..row_tiles import number
from .recurrent_steps import Steps, states_shape

Expr = Any

_CHAINS, _OPEN_CHAINS = 8, 6  # additions at a time that hide their latency, of a row at least


def recurrence_kernel(
    layer: Recurrence, read: Sequence[int], core: Core, workers: int = 1, *, packed: bool = False
) -> Kernel:
    """Return the kernel of a layer.

    The sums of some rows for one vector of each gate are in registers. All rows of a tile use the
    weights of these gates, one group after the other, before those of the next ones.

    Parameters
    ----------
    layer : Recurrence
    read : sequence of int
        The outputs that somebody reads, of :attr:`Recurrence.outputs`.
    core : Core
    workers : int
        Workers that share the rows.
    packed : bool
        Whether the weights are packed by :func:`pack_recurrent`.
    """
    width, group = _width(layer, core, workers), _group(layer, core, workers)
    shapes = list(layer.inputs)
    if packed:
        shapes[1] = (blocks(layer.hidden, width), layer.hidden, layer.gates, width)

    def emit(buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        inputs = len(layer.inputs)
        outputs: list[Any] = [None] * len(layer.outputs)
        for place, buffer in zip(read, buffers[inputs:-1], strict=True):
            outputs[place] = buffer
        steps = Steps(layer, [*buffers[:inputs], *outputs, buffers[-1]], width, group)
        with T.serial(begin, begin + extent) as tile, tile_scope():
            _emit_rows(layer, workers, tile, steps.emit)

    return Kernel(
        name="recurrence",
        key=("recurrence", layer, tuple(read), core, workers, packed),
        inputs=tuple(map(TensorSpec, shapes)),
        outputs=tuple(TensorSpec(layer.outputs[place]) for place in read),
        scratch=(TensorSpec(states_shape(layer)),),
        phases=(Phase(_tiles(layer, workers), emit),),
    )


def _tiles(layer: Recurrence, workers: int) -> int:
    """Return the number of tiles; some of those of an open batch may be empty."""
    if isinstance(layer.batch, Size):
        return workers
    return blocks(layer.batch, blocks(layer.batch, workers))


def _emit_rows(
    layer: Recurrence, workers: int, tile: Expr, body: Callable[[Expr, Expr], None]
) -> None:
    """Emit ``body(first, rows)`` for the rows of a tile."""
    if isinstance(layer.batch, Size):
        batch = bind(number(layer.batch))
        size = bind(T.floordiv(batch + (workers - 1), workers))
        first = bind(tile * size)
        rows = bind(T.min(size, batch - first))
        with T.If(rows > 0), T.Then():
            body(first, rows)
        return
    rows = blocks(layer.batch, workers)
    full, rest = divmod(layer.batch, rows)
    whole = (full, lambda index: body(index * rows, rows))
    part = (1 if rest else 0, lambda _: body(full * rows, rest))
    select(tile, [whole, part])


def pack_recurrent(weights: np.ndarray, layer: Recurrence, core: Core, workers: int) -> np.ndarray:
    """Return weights ``[hidden, gates * hidden]`` in the order in which a step reads them."""
    width = _width(layer, core, workers)
    padding = -layer.hidden % width
    parts = weights.reshape(layer.hidden, layer.gates, layer.hidden)
    padded = np.pad(parts, [(0, 0), (0, 0), (0, padding)])
    vectors = padded.reshape(layer.hidden, layer.gates, -1, width)
    return np.ascontiguousarray(vectors.transpose(2, 0, 1, 3))


def _group(layer: Recurrence, core: Core, workers: int) -> int:
    """Return the rows whose sums fit into registers, beside weights and an element."""
    if isinstance(layer.batch, Size):
        vectors = layer.gates * (_width(layer, core, workers) // core.lanes)
        return max(1, (core.registers - 4) // vectors - 1)
    rows, most = blocks(layer.batch, workers), max(1, (core.registers - 4) // (layer.gates + 1))
    return blocks(rows, blocks(rows, most))


def _width(layer: Recurrence, core: Core, workers: int) -> int:
    """Return the units whose gates are computed at a time: several vectors for few rows."""
    single = isinstance(layer.batch, Size)  # as there may be a single row
    width, sums = core.lanes, layer.gates * (1 if single else _group(layer, core, workers))
    enough = _OPEN_CHAINS if single else _CHAINS
    while sums < enough and 2 * width <= layer.hidden:
        width, sums = 2 * width, 2 * sums
    return width
