# SPDX-License-Identifier: Apache-2.0
"""Inverses of small matrices."""

from __future__ import annotations

import numpy as np
from tvm import relax

from ....emitter import constant, dtype_of, shape_of
from ...node_emitter import NodeEmitter
from ..elimination import eliminated
from ..formula import Term
from .domain import contributed


@contributed("Inverse")
def inverse(emit: NodeEmitter, data: relax.Expr) -> relax.Expr:
    """Return the inverses of matrices; NaN where there is none."""
    shape = shape_of(data)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise emit.error(f"inverts square matrices, but is given a tensor of {list(shape)}.")
    unit = Term(emit, constant(np.eye(shape[-1])))
    found = eliminated(emit, Term(emit, emit.cast(data, "float64")), unit)
    return found.solutions().to(dtype_of(data)).expr
