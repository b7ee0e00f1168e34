# SPDX-License-Identifier: Apache-2.0
"""Concatenation of row-major tensors of open sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from .....ops.epilogue import NOTHING
from .....ops.tensor import TensorSpec
from .....sizes.size import AnyShape, known_equal
from ...core import Core
from ..kernel import SHARES, Kernel, Phase, by_shares
from .open_strided import RowsEmitter
from .strided_axes import Axis

Expr = Any


def open_concat(
    shapes: Sequence[AnyShape], result: AnyShape, axis: int, dtype: str, core: Core
) -> Kernel:
    """Return the kernel that copies tensors side by side into a result.

    Each part is rows without gaps, which lie in rows of the result. All tensors are flat.

    Parameters
    ----------
    shapes : sequence of shapes
        Of the parts.
    result : shape
    axis : int
        The axis along which they lie side by side.
    dtype : str
        The type of all.
    core : Core
        The core that runs the kernel.
    """
    rows, within = math.prod(result[:axis]), math.prod(result[axis + 1 :])
    lengths = [shape[axis] * within for shape in shapes]
    begins = accumulate(lengths[:-1], initial=0)
    whole = result[axis] * within
    emits = []
    for length, begin in zip(lengths, begins, strict=True):
        outer = [] if known_equal(rows, 1) else [Axis(rows, (length, whole))]
        emitter = RowsEmitter([*outer, Axis(length, (1, 1))], (0, begin), NOTHING, core)
        emits.append(by_shares(emitter.rows.num_pieces, emitter.emit))

    def emit(buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        for emit_part, source in zip(emits, buffers[:-1], strict=True):
            emit_part([source, buffers[-1]], begin, extent)

    return Kernel(
        name="concat",
        key=("open concat", tuple(shapes), result, axis, dtype, core),
        inputs=tuple(TensorSpec((rows * length,), dtype) for length in lengths),
        outputs=(TensorSpec((rows * whole,), dtype),),
        phases=(Phase(SHARES, emit),),
    )
