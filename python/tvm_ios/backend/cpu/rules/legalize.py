# SPDX-License-Identifier: Apache-2.0
"""TVM's default lowering of one operator, for everything that has no rule."""

from __future__ import annotations

import logging
import math

import numpy as np
import tvm
import tvm_ffi
from tvm import s_tir, tirx

from ....graph.operators import Operator
from ....lowering.legalize import tir_of
from ....lowering.no_rule import NoRule
from ..kernels.compose import with_shapes
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
    legalized = tir_of(op)
    function = legalized.function
    bindings = plain_inputs(binder, legalized.values)
    try:
        function = _keeping_nan(function)
        if op.kind in ("max", "min"):  # ONNX Runtime's poolings begin with finite numbers, too
            function = _from_infinity(function)
        kernel = generic_kernel(op.kind, function, len(bindings), legalized.shapes, legalized.sizes)
    except (tvm.error.InternalError, s_tir.ScheduleError) as error:
        raise NoRule from error  # indices that TVM cannot narrow, loops it cannot move
    if () in legalized.shapes:  # TVM may have given such a tensor an axis
        count = len(bindings)
        kernel = with_shapes(kernel, legalized.shapes[:count], legalized.shapes[count:])
    _logger.info("operator %s (%s) has no rule: TVM's own lowering", op.name, op.kind)
    return Choice(kernel, bindings, PLAIN)


def _from_infinity(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Let maxima begin with minus infinity, and minima with infinity, not with finite numbers."""

    def widened(block: s_tir.SBlock) -> s_tir.SBlock:
        if block.init is None:
            return block
        return s_tir.SBlock(
            block.iter_vars, block.reads, block.writes, block.name_hint, block.body,
            tvm_ffi.structural_map(block.init, [(tirx.FloatImm, _infinite)]),
            block.alloc_buffers, block.match_buffers, block.annotations,
        )  # fmt: skip

    return function.with_body(tvm_ffi.structural_map(function.body, [(s_tir.SBlock, widened)]))


def _infinite(number: tirx.FloatImm) -> tirx.FloatImm:
    """Return infinity for the largest number of a type, and other numbers as they are."""
    name = str(number.ty)
    if name not in _LARGEST or abs(number.value) != _LARGEST[name]:
        return number
    return tirx.FloatImm(name, math.copysign(math.inf, number.value))


_LARGEST = {name: float(np.finfo(name).max) for name in ("float16", "float32", "float64")}


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
