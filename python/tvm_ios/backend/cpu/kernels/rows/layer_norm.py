# SPDX-License-Identifier: Apache-2.0
"""Layer normalisation of the rows of a row-major matrix."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

from .....ops.epilogue import NOTHING, Epilogue
from .....ops.tensor import TensorSpec
from .....ops.tir_function import tile_scope
from .....sizes.size import AnySize, Size, is_open
from ...core import Core
from ...isa.emit import along, lanes_of, splat
from ...isa.epilogue import apply_epilogue
from ...isa.functions import keep
from ...isa.masked import masked, masked_source
from ...isa.storage import store
from ..kernel import Kernel, phase
from ..plane import PlaneTiles
from .scan import reduce_row

Expr = Any


@dataclass(frozen=True)
class LayerNorm:
    """A layer normalisation of each row, followed by an epilogue.

    It computes ``(x - mean) / sqrt(variance + epsilon) * gamma + beta``. If it is not ``centred``,
    it computes ``x / sqrt(mean of squares + epsilon) * gamma``. A ``last`` argument of the epilogue
    has one value for each position in a row.
    """

    rows: AnySize
    length: AnySize
    epsilon: float
    epilogue: Epilogue = NOTHING
    centred: bool = True


def layer_norm_kernel(norm: LayerNorm, core: Core) -> Kernel:
    """Return the kernel of a layer normalisation.

    The kernel's inputs are the matrix, gamma, beta if it is centred, and the epilogue's arguments.
    All tensors are flat; a tile is one row. The variance is the mean of squared differences,
    computed in a second pass over the row, which is in L1 by then. The difference of two means
    would lose precision.
    """
    factors = ("last", "last") if norm.centred else ("last",)
    sizes = {"full": norm.rows * norm.length, "last": norm.length}

    def emit(buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        with T.serial(begin, begin + extent) as row, tile_scope():
            _emit_row(norm, core.lanes, buffers, row * norm.length)

    ends = is_open((norm.length,))  # vectors that are known only at run time
    return Kernel(
        name="layer_norm" if norm.centred else "rms_norm",
        key=("layer_norm", norm, core),
        inputs=tuple(
            TensorSpec((sizes[kind],)) for kind in ("full", *factors, *norm.epilogue.arguments)
        ),
        outputs=(TensorSpec((sizes["full"],)),),
        phases=(phase(norm.rows, emit, sources=frozenset(_sources(ends, core))),),
        plane=_plane(norm.rows),
        narrows=not ends,
    )


def _sources(ends: bool, core: Core) -> Iterator[str]:
    if ends:
        yield masked_source(core.lanes)


def _plane(rows: AnySize) -> PlaneTiles | None:
    """Return how the tiles cover the result; None if their number is open."""
    return None if isinstance(rows, Size) else PlaneTiles(1, rows, 1, rows, matrix=True)


def _share(length: AnySize) -> Expr:
    """Return the share of an element in a mean."""
    if isinstance(length, Size):
        return keep(T.float32(1) / T.Cast("float32", length.short))
    return T.float32(1.0 / length)


def _emit_row(norm: LayerNorm, lanes: int, buffers: Sequence[Any], start: Expr) -> None:
    source, gamma, *others, result = buffers
    beta, arguments = (others[:1], others[1:]) if norm.centred else ([], others)
    length, share = norm.length, _share(norm.length)

    def load(at: Expr, width: int, count: Expr | None = None) -> Expr:
        (row,) = masked([source], count)
        return row[lanes_of(start + at, width)]

    mean = None
    if norm.centred:
        mean = keep(reduce_row(length, lanes, load, operator.add, 0.0) * share)

    def centred(at: Expr, width: int, count: Expr | None = None) -> Expr:
        value = load(at, width, count)
        return value if mean is None else value - splat(mean, width)

    def squared(at: Expr, width: int, count: Expr | None = None) -> Expr:
        difference = keep(centred(at, width, count))
        return difference * difference

    variance = reduce_row(length, lanes, squared, operator.add, 0.0) * share
    scale = keep(T.float32(1) / tirx.sqrt(variance + T.float32(norm.epsilon)))

    def finish(at: Expr, width: int, count: Expr | None = None) -> None:
        gammas, written, *rest = masked([gamma, result, *beta, *arguments], count)
        shifts, others = rest[: len(beta)], rest[len(beta) :]
        within, place = lanes_of(at, width), lanes_of(start + at, width)
        normal = centred(at, width, count) * splat(scale, width) * gammas[within]

        def argument(a: int) -> Expr:
            return others[a][within if norm.epilogue.arguments[a] == "last" else place]

        with tile_scope():
            shifted = normal + shifts[0][within] if shifts else normal
            store(written, apply_epilogue(norm.epilogue, shifted, argument, width), [place])

    along(length, lanes, finish)
