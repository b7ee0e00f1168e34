# SPDX-License-Identifier: Apache-2.0
"""Broadcasts and reshapes that change nothing."""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import relax

from ..relax_ir.expressions import known_shape
from ..relax_ir.functions import bindings_of
from ..sizes.size import is_open
from .compositions import raise_by
from .matching import Matcher


def remove_empty_moves(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Remove broadcasts and reshapes to the shape that a tensor has.

    A function of nothing else stays as it is, since a schedule needs an operator.
    """
    moves = (_SameShape(),)
    result = raise_by({"broadcast_to": moves, "reshape": moves}, mod, func)
    computes = any(isinstance(value, relax.Call) for value in bindings_of(result).values())
    return result if computes else func


class _SameShape:
    def raised(self, matcher: Matcher, call: relax.Call) -> relax.Expr | None:
        """Return the operand if it has the shape of the result.

        That is written alike, as Relax compares sizes by what is written.
        """
        shape, own = known_shape(call), known_shape(call.args[0])
        if shape is None or own is None or shape != own:
            return None
        written = tvm_ffi.structural_equal(call.ty.shape, call.args[0].ty.shape)
        return call.args[0] if written or not is_open((*shape, *own)) else None
