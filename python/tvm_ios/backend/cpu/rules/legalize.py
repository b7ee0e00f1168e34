# SPDX-License-Identifier: Apache-2.0
"""TVM's default lowering of one operator, for everything that has no rule."""

from __future__ import annotations

import logging

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from ....graph.operators import Operator
from ....lowering.legalize import tir_of
from ....lowering.no_rule import NoRule
from ..kernels.generic import generic_kernel
from ..kernels.layout import PLAIN
from .base import Choice
from .bindings import InputBinder, plain_inputs

_logger = logging.getLogger(__name__)


def generic(op: Operator, binder: InputBinder) -> Choice:
    """Lower the operator as TVM does, and let the workers share the loops of its result.

    Raises
    ------
    NoRule
        If TVM does not lower the operator to a single TIR function. The operator is then left to
        TVM's default lowering.
    """
    function, values = tir_of(op)
    bindings = plain_inputs(binder, values)
    try:
        kernel = generic_kernel(op.kind, _keeping_nan(function), len(bindings))
    except (tvm.error.InternalError, s_tir.ScheduleError) as error:
        raise NoRule from error  # indices that TVM cannot narrow, loops it cannot move
    _logger.info("operator %s (%s) has no rule: TVM's own lowering", op.name, op.kind)
    return Choice(kernel, bindings, PLAIN)


def _keeping_nan(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Rewrite maxima and minima so that they are NaN if one side is.

    TVM's return the second side whenever the comparison is false.
    """

    def keep(extreme: tirx.Max | tirx.Min) -> tirx.Expr:
        if not extreme.ty.dtype.is_float:
            return extreme
        return tirx.Select(tirx.isnan(extreme.a), extreme.a, extreme)

    rewrites = [(tirx.Max, keep), (tirx.Min, keep)]
    return function.with_body(tvm_ffi.structural_map(function.body, rewrites))
