# SPDX-License-Identifier: Apache-2.0
"""Scattering that TVM does right."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax

from ..support.errors import ModelError


def scatter_elements(
    data: relax.Expr, indices: relax.Expr, updates: relax.Expr, attrs: tvm.ir.Attrs
) -> relax.Expr:
    """``scatter_elements`` of indices from 0 on, also where they are fewer than the data.

    TVM's lowering takes for granted that both have the same lengths but for the axis, and reads
    behind the end of the indices where they do not. Those become a ``scatter_nd``, whose indices
    have all coordinates of an element.

    Raises
    ------
    ModelError
        For means, which ``scatter_nd`` does not know.
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
