# SPDX-License-Identifier: Apache-2.0
"""The range of the numbers in a row, and the grid of 8 bits that it decides."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from tvm.tirx.script import builder as T

from .....ops.dynamic_grid import grid_of
from .....ops.tensor import TensorSpec
from .....ops.tir_function import tile_scope
from .....sizes.arithmetic import ceil_div
from .....sizes.size import AnySize
from ...core import Core
from ...isa.emit import Accumulators, lanes_of, loop, splat, unroll, zeros
from ...isa.functions import keep
from ..kernel import Kernel, Phase, phase
from ..row_tiles import number

Expr = Any

PARTS = 3
"""The numbers that describe a range: the least, the largest, and 0, or NaN if one was NaN."""

_CHUNK = 1 << 13  # elements of a tile: reading them takes longer than what follows for each

_STEPS: tuple[Callable[[Expr, Expr], Expr], ...] = (T.min, T.max, operator.add)


def value_range(length: Expr, lanes: int, read: Callable[[Expr, int], Expr]) -> list[Expr]:
    """Emit the :data:`PARTS` of a row's range, which 0 belongs to.

    Parameters
    ----------
    length : int or Expr
    lanes : int
        Elements of a vector.
    read : callable
        ``read(at, width)`` returns ``width`` elements from ``at``.
    """
    found, ends = Accumulators(PARTS, lanes, zeros(lanes)), Accumulators(PARTS, 1, T.float32(0))
    zero = keep(T.float32(0))  # TVM takes 0 for a product with the number 0, also of NaN

    def add(ranges: Accumulators, at: Expr, width: int) -> None:
        value = keep(read(at, width))
        for place, x in enumerate((value, value, value * splat(zero, width))):
            ranges[place] = _STEPS[place](x, ranges[place])

    def lane(n: Expr) -> None:
        for place, step in enumerate(_STEPS):
            ends[place] = step(found.element(place, n), ends[place])

    full = length // lanes
    loop(full, lambda n: add(found, n * lanes, lanes))
    unroll(0, lanes, lane)
    rest = length - full * lanes
    if not isinstance(rest, int) or rest:
        loop(rest, lambda n: add(ends, full * lanes + n, 1))
    return [ends[place] for place in range(PARTS)]


def grid_of_range(parts: list[Expr]) -> tuple[Expr, Expr]:
    """Emit the grid of a range: its step, and which number stands for 0."""
    step, place = grid_of(parts[0], parts[1])
    step = keep(step + parts[2])
    return step, keep(place(step))


def grid_kernel(count: AnySize, read: Sequence[int], core: Core) -> Kernel:
    """Return the kernel that finds the grid of ``count`` elements; all its tensors are flat.

    Parameters
    ----------
    count : int or Size
    read : sequence of int
        What somebody reads: 0 for the step, 1 for the number that stands for 0.
    core : Core
    """
    scalar = TensorSpec((1,))
    chunks = ceil_div(count, _CHUNK)
    single = isinstance(chunks, int) and chunks == 1

    def finish(parts: list[Expr], buffers: Any) -> None:
        found = grid_of_range(parts)
        for place, buffer in zip(read, buffers[1:], strict=False):
            T.buffer_store(buffer, found[place], [0])

    def whole(buffers: Any, _begin: Expr, _extent: Expr) -> None:
        with tile_scope():
            load = lambda at, width: buffers[0][lanes_of(at, width)]  # noqa: E731
            finish(value_range(count, core.lanes, load), buffers)

    def part(buffers: Any, begin: Expr, extent: Expr) -> None:
        with T.serial(begin, begin + extent) as tile, tile_scope():
            first = tile * _CHUNK
            length = T.min(number(count) - first, _CHUNK)
            load = lambda at, width: buffers[0][lanes_of(first + at, width)]  # noqa: E731
            parts = value_range(length, core.lanes, load)
            for place, value in enumerate(parts):
                T.buffer_store(buffers[-1], value, [tile, place])

    def together(buffers: Any, _begin: Expr, _extent: Expr) -> None:
        with tile_scope():
            ends = Accumulators(PARTS, 1, T.float32(0))

            def add(tile: Expr) -> None:
                for place, step in enumerate(_STEPS):
                    ends[place] = step(buffers[-1][tile, place], ends[place])

            loop(number(chunks), add)
            finish([ends[place] for place in range(PARTS)], buffers)

    return Kernel(
        name="dynamic_grid",
        key=("dynamic_grid", count, tuple(read), core),
        inputs=(TensorSpec((count,)),),
        outputs=(scalar,) * len(read),
        scratch=() if single else (TensorSpec((chunks, PARTS)),),
        phases=(Phase(1, whole),) if single else (phase(chunks, part), Phase(1, together)),
    )
