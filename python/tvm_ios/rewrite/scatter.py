# SPDX-License-Identifier: Apache-2.0
"""A correct form of ``scatter_elements``."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax

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
    shape = [int(extent) for extent in indices.ty.shape]
    whole = [int(extent) for extent in data.ty.shape]
    whole[axis] = shape[axis]
    if shape == whole:
        return relax.op.scatter_elements(data, indices, updates, axis, reduction)
    if reduction == "mean":
        raise ModelError("Means of scattered elements need indices of the data's shape.")
    coordinates = [relax.const(c[..., None], "int64") for c in np.indices(shape, "int64")]
    coordinates[axis] = relax.op.expand_dims(relax.op.astype(indices, "int64"), -1)
    return relax.op.scatter_nd(data, relax.op.concat(coordinates, -1), updates, reduction)
