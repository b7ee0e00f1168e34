# SPDX-License-Identifier: Apache-2.0
"""Replacement of convolutions, or products, that read the same tensor by one, on a CUDA device.

As on the CPU, smaller windows are padded to the largest one (IOS, section 3), and the kernel writes
each result to its own tensor, so nothing is split.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

import numpy as np
import tvm_ffi
from tvm import relax

from ....graph.operators import Operator
from ....lowering.implementation import Implementation
from ....lowering.product import shared_left_side
from ....lowering.replacements.rule import Alike, Rule
from ....lowering.replacements.windows import enlarge, held_windows, windows_of
from ....relax_ir.constants import constant_array, held_array
from ..kernels.kernel import CudaKernel
from ..kernels.match_gemm import ColumnPart
from ..kernels.schedule import schedule_divided, scheduled_kernel
from ..rules.config import CudaLoweredGraph
from ..rules.function import operator_function
from ..rules.inplace import slice_of
from .combine import Emit, combines, convolution, rebuilt

_CHANNELS, _COLUMNS = -3, -1
"""The axis along which results lie side by side, in a feature map and in a matrix."""


def _key(lowered: CudaLoweredGraph, op: Operator) -> Hashable | None:
    windows = windows_of(op)
    if windows is None or op.outputs[0] not in lowered.layouts or not combines(op):
        return None
    constants = all(constant_array(argument) is not None for argument in op.arguments)
    channelwise = all(kind == "channel" for kind in op.epilogue.arguments)
    if not (constants and channelwise):
        return None
    return (op.call.args[0], windows.alignment, op.epilogue, *_steps(op))


def _product_key(lowered: CudaLoweredGraph, op: Operator) -> Hashable | None:
    if not combines(op):
        return None
    key = shared_left_side(lowered, op)
    return None if key is None else (key, *_steps(op))


def _steps(op: Operator) -> Iterator[Hashable]:
    """Yield the operator's bindings.

    The epilogues of ``x + y`` and ``y + x`` are equal, but the bindings differ.
    """
    for binding in op.bindings:
        known = tuple(constant_array(argument) is not None for argument in binding.value.args)
        yield (binding.value.op.name, known)


def _merge_convolutions(
    lowered: CudaLoweredGraph, operators: tuple[int, ...]
) -> Implementation[CudaKernel]:
    ops = [lowered.graph.operators[i] for i in operators]
    windows = [held_windows(op) for op in ops]
    held = enlarge(windows)
    weights = [
        held.hold(held_array(op.call.args[1]), of) for op, of in zip(ops, windows, strict=True)
    ]
    anchor = convolution(ops[0].call.args[0], np.concatenate(weights), held)
    return _merged(lowered, ops, anchor, _CHANNELS)


def _merge_products(
    lowered: CudaLoweredGraph, operators: tuple[int, ...]
) -> Implementation[CudaKernel]:
    ops = [lowered.graph.operators[i] for i in operators]
    weights = [held_array(op.call.args[1]) for op in ops]
    both = relax.const(np.concatenate(weights, axis=_COLUMNS))
    return _merged(lowered, ops, relax.op.matmul(ops[0].call.args[0], both), _COLUMNS)


def _merged(
    lowered: CudaLoweredGraph, ops: Sequence[Operator], anchor: relax.Expr, axis: int
) -> Implementation[CudaKernel]:
    """Return one kernel for operators whose results lie side by side along ``axis``."""
    merged, config = merged_operator(ops, anchor, axis), lowered.config
    layout = lowered.layouts.get(ops[0].outputs[0])
    layouts = dict(lowered.layouts) | ({merged.outputs[0]: layout} if layout else {})
    function, inputs = operator_function(merged, layouts, lowered.slots)
    outputs = tuple(op.outputs[0] for op in ops)
    parts = tuple(
        ColumnPart.of(int(value.ty.shape.values[axis]), slice_of(value, lowered.slots))
        for value in outputs
    )
    scheduled = schedule_divided(function, parts, config.target, config.precision, config.limits)
    key = ("merged", scheduled.name, parts, tvm_ffi.StructuralKey(function))
    kernel = scheduled_kernel(f"{ops[0].kind}_merged", key, scheduled, len(inputs))
    return Implementation(tuple(op.index for op in ops), kernel, inputs, outputs)


def merged_operator(ops: Sequence[Operator], anchor: relax.Expr, axis: int) -> Operator:
    """Return one operator that computes the results of several, side by side along ``axis``.

    Parameters
    ----------
    ops : sequence of Operator
        Operators that differ only in their anchors and in constants along the axis.
    anchor : relax.Expr
        Computes the results of all anchors.
    axis : int
        The axis, counted from the last.

    Returns
    -------
    Operator
        The merged operator.
    """

    def body(emit: Emit) -> None:
        values: dict[relax.Var, relax.Expr] = {}
        for rows in zip(*(op.bindings for op in ops), strict=True):
            calls = [binding.value for binding in rows]
            first = calls[0].same_as(ops[0].anchor)
            variable = emit(anchor if first else _beside(calls, values, axis))
            values.update((binding.var, variable) for binding in rows)

    return rebuilt(ops[0], body)


def _beside(
    calls: Sequence[relax.Call], values: dict[relax.Var, relax.Expr], axis: int
) -> relax.Call:
    """Return a step after the anchors, applied to all of their results."""
    arguments = []
    for parts in zip(*(call.args for call in calls), strict=True):
        if constant_array(parts[0]) is None:
            arguments.append(values.get(parts[0], parts[0]))
            continue
        arrays = [held_array(part) for part in parts]
        if all(array.ndim == 0 for array in arrays):
            arguments.append(parts[0])
        else:
            arguments.append(relax.const(np.concatenate(arrays, axis=axis)))
    return relax.Call(calls[0].op, arguments, calls[0].attrs, calls[0].ty_args)


MERGE_CONVOLUTIONS = Rule("merge-convolutions", Alike(_key), _merge_convolutions)
MERGE_DENSE = Rule("merge-dense", Alike(_product_key), _merge_products)
