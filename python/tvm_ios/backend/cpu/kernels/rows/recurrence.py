# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers: a tile is all steps of some rows of the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.tirx.script import builder as T

from .....ops.recurrence import Recurrence
from .....ops.tensor import TensorSpec
from .....ops.tir_function import tile_scope
from .....sizes.size import Size
from ...core import Core
from ...isa.emit import bind, select
from ..factors import Multiplication
from ..kernel import Kernel, Phase
from ..layout import blocks
from ..row_tiles import number
from .recurrent_products import FloatProducts, Products, QuantizedProducts
from .recurrent_steps import Steps, states_shape

Expr = Any

_MANY = 1 << 14  # weights that take longer to read than another worker to begin
_VERY_MANY = 1 << 17  # those for which each of several steps gains by it
_MOST_STEPS = 200  # as each has an entry in the tables of a launch, or two
_OF_BEGIN = 0.02  # the share of a step's time before its products
_CHAINS, _OPEN_CHAINS = 8, 6  # additions at a time that hide their latency, of a row at least


def recurrence_kernel(
    layer: Recurrence, read: Sequence[int], core: Core, workers: int = 1, *, packed: bool = False
) -> Kernel:
    """Return the kernel of a layer.

    The sums of some rows for one vector of each gate are in registers. All rows of a tile use the
    weights of these gates, one group after the other, before those of the next ones. Or workers
    share the units of a step, and meet after each.

    Parameters
    ----------
    layer : Recurrence
        The inputs of one that is quantised are those of :func:`pack_quantized`.
    read : sequence of int
        The outputs that somebody reads, of :attr:`Recurrence.outputs`.
    core : Core
    workers : int
        Workers that share the rows.
    packed : bool
        Whether the weights are packed by :func:`pack_recurrent`.
    """
    width, group = _width(layer, core, workers), _group(layer, core, workers)
    form = _form(layer, width, core, packed=packed)
    count = len(form.inputs)

    def steps_of(buffers: Sequence[Any]) -> Steps:
        given, scratch = buffers[:count], buffers[count + len(read) :]
        outputs: list[Any] = [None] * len(layer.outputs)
        for place, buffer in zip(read, buffers[count:], strict=False):
            outputs[place] = buffer
        operands = [*given[: len(layer.inputs)], *outputs, scratch[0]]
        return Steps(layer, operands, form.products(given, scratch), width, group)

    def emit(buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        with T.serial(begin, begin + extent) as tile, tile_scope():
            _emit_rows(layer, workers, tile, steps_of(buffers).emit)

    phases: tuple[Phase, ...] = (Phase(_tiles(layer, workers), emit, sources=form.sources),)
    if _shares_units(layer, workers):
        phases = _phases_of_steps(layer, width, form, steps_of)
    return Kernel(
        name="recurrence",
        key=("recurrence", layer, tuple(read), core, workers, packed),
        inputs=form.inputs,
        outputs=tuple(TensorSpec(layer.outputs[place]) for place in read),
        scratch=form.scratch,
        phases=phases,
    )


def _phases_of_steps(
    layer: Recurrence, width: int, form: _Form, steps_of: Callable[[Sequence[Any]], Steps]
) -> tuple[Phase, ...]:
    """Return the phases of a layer whose steps have one each, with the units as tiles.

    States that are rounded have a phase before each step. The phases of all steps have one code.
    """
    count = blocks(layer.hidden, width)
    full, rest = divmod(layer.hidden, width)

    def begin(buffers: Sequence[Any], _begin: Expr, _extent: Expr) -> None:
        steps_of(buffers).emit_begin()

    def prepared(buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        with T.serial(begin, begin + extent) as step, tile_scope():
            steps_of(buffers).emit_prepared(step)

    def units(buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        step = bind(T.floordiv(begin, count))
        first = bind(begin - step * count)
        whole = (full, lambda n: steps_of(buffers).emit_units(step, n * width, width))
        part = (1 if rest else 0, lambda _: steps_of(buffers).emit_units(step, full * width, rest))
        with T.serial(first, first + extent) as tile, tile_scope():
            select(tile, [whole, part])

    assert isinstance(layer.steps, int), "a known number of steps has as many phases"
    phases = [Phase(1, begin, work=_OF_BEGIN)]
    for step in range(layer.steps):
        if step and layer.quantized:
            phases.append(Phase(1, prepared, work=_OF_BEGIN, first=step, code="prepared"))
        own = Phase(count, units, sources=form.sources, first=step * count, code="units")
        phases.append(own)
    return tuple(phases)


def _shares_units(layer: Recurrence, workers: int) -> bool:
    """Return whether workers share the units of each step.

    They would be idle otherwise, and the weights take longer to read than workers to meet.
    """
    again = layer.cell == "gru" and not layer.reset_after  # which multiplies twice, one by one
    if isinstance(layer.steps, Size) or isinstance(layer.batch, Size) or again:
        return False
    if layer.steps == 1:
        return workers > 1 and layer.gates * layer.hidden**2 >= _MANY
    idle = not layer.paired and layer.batch < workers and layer.steps <= _MOST_STEPS
    return idle and layer.gates * layer.hidden**2 >= _VERY_MANY


@dataclass(frozen=True)
class _Form:
    """How the weights of a layer are stored, and how states are multiplied by them."""

    inputs: tuple[TensorSpec, ...]
    scratch: tuple[TensorSpec, ...]
    products: Callable[[Sequence[Any], Sequence[Any]], Products]
    sources: frozenset[str] = frozenset()


def _form(layer: Recurrence, width: int, core: Core, *, packed: bool) -> _Form:
    if layer.quantized:
        return _quantized_form(layer, width, core)
    shapes = list(layer.inputs)
    if packed:
        shapes[1] = (blocks(layer.hidden, width), layer.hidden, layer.gates, width)

    def products(given: Sequence[Any], scratch: Sequence[Any]) -> Products:
        return FloatProducts(layer, layer.operands(given), scratch[0], width)

    scratch = TensorSpec(states_shape(layer, layer.hidden))
    return _Form(tuple(map(TensorSpec, shapes)), (scratch,), products)


def _quantized_form(layer: Recurrence, width: int, core: Core) -> _Form:
    multiplication, vector = Multiplication.of("quads", core), core.lanes
    count = blocks(layer.hidden, width)
    units, parts = count * width, width // vector
    words = multiplication.words
    vectors = (count, units // multiplication.step, layer.gates, parts, words * vector)
    columns = (count, layer.gates, width)
    inputs = list(map(TensorSpec, layer.inputs))
    inputs[1] = TensorSpec((*vectors, multiplication.step // words), multiplication.right)
    inputs[2] = TensorSpec(columns)

    def products(given: Sequence[Any], scratch: Sequence[Any]) -> Products:
        weights = multiplication.together(given[1], vectors)
        return QuantizedProducts(
            layer, weights, given[2], given[-1], scratch, width, multiplication, vector
        )

    scratch = (
        TensorSpec(states_shape(layer, units)),
        TensorSpec((layer.batch, units), multiplication.left),
        TensorSpec((layer.batch, 2)),
    )
    given = (*inputs, TensorSpec(columns, "int32"))
    return _Form(given, scratch, products, multiplication.sources)


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


def pack_quantized(
    weights: np.ndarray, scales: np.ndarray, layer: Recurrence, core: Core, workers: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return int8 weights ``[hidden, gates * hidden]`` as a step reads them.

    Returns
    -------
    weights : numpy.ndarray
        What a step of the reduction multiplies, by units, gates and vectors.
    scales, columns : numpy.ndarray
        The scales of the columns, and their sums as int32, ``[hidden / lanes, gates, lanes]``.
    """
    width, hidden, gates = _width(layer, core, workers), layer.hidden, layer.gates
    padding, count = -hidden % width, blocks(hidden, width)

    def of_units(columns: np.ndarray) -> np.ndarray:
        """Return columns ``[..., gates * hidden]`` as ``[..., gates, hidden / lanes, lanes]``."""
        parts = columns.reshape(*columns.shape[:-1], gates, hidden)
        padded = np.pad(parts, [(0, 0)] * (parts.ndim - 1) + [(0, padding)])
        return padded.reshape(*parts.shape[:-1], count, width)

    rows = np.pad(of_units(weights), [(0, padding), (0, 0), (0, 0), (0, 0)])
    quads = rows.reshape(-1, 4, gates, count, width // core.lanes, core.lanes)
    multiplication = Multiplication.of("quads", core)
    packed = multiplication.pack(np.ascontiguousarray(quads.transpose(3, 0, 2, 4, 5, 1)))
    sums = weights.sum(axis=0, dtype="int32")
    factors, columns = (np.ascontiguousarray(of_units(x).swapaxes(0, 1)) for x in (scales, sums))
    return packed, factors, columns


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
