# SPDX-License-Identifier: Apache-2.0
"""A correct form of ``scatter_elements``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tvm
from tvm import relax

from ..sizes.arithmetic import same_shape
from ..sizes.size import AnySize, hints_of, is_open, prim, size_of
from ..support.errors import ModelError


def scatter_elements(
    data: relax.Expr, indices: relax.Expr, updates: relax.Expr, attrs: tvm.ir.Attrs
) -> relax.Expr:
    """Build a ``scatter_elements`` of non-negative indices that may be fewer than the data.

    TVM's lowering assumes that data and indices have the same lengths except along the axis, and
    reads behind the end of the indices otherwise. In that case the call becomes a ``scatter_nd``,
    whose indices hold all coordinates of an element.

    Parameters
    ----------
    data, indices, updates : relax.Expr
        As in ``relax.op.scatter_elements``.
    attrs : tvm.ir.Attrs
        The attributes of the original call.

    Raises
    ------
    ModelError
        If the reduction is a mean, which ``scatter_nd`` does not support.
    """
    axis, reduction = int(attrs.axis) % data.ty.ndim, attrs.reduction
    shape, whole = (list(map(size_of, x.ty.shape)) for x in (indices, data))
    whole[axis] = shape[axis]
    if same_shape(shape, whole):
        return relax.op.scatter_elements(data, indices, updates, axis, reduction)
    if reduction == "mean":
        raise ModelError("Means of scattered elements need indices of the data's shape.")
    coordinates = _coordinates(shape)
    coordinates[axis] = relax.op.expand_dims(relax.op.astype(indices, "int64"), -1)
    return relax.op.scatter_nd(data, relax.op.concat(coordinates, -1), updates, reduction)


def _coordinates(shape: Sequence[AnySize]) -> list[relax.Expr]:
    """Return the places of elements along each axis, as tensors of one more axis."""
    if not is_open(shape):
        grids = np.indices(hints_of(shape), "int64")
        return [relax.const(grid[..., None], "int64") for grid in grids]
    found = []
    for axis, size in enumerate(shape):
        along = [1] * len(shape)
        along[axis] = size
        places = relax.op.reshape(relax.op.arange(0, prim(size), 1, "int64"), (*along, 1))
        found.append(relax.op.broadcast_to(places, (*shape, 1)))
    return found
