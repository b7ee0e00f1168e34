# SPDX-License-Identifier: Apache-2.0
"""Convolutions that read the same tensor computed as one, on a CUDA device.

As on the CPU the smaller windows are held by the largest one (IOS, section 3), and the kernel
writes each result to where it belongs: nothing is split.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np
import tvm_ffi
from tvm import relax

from ...graph.fold import constant_array
from ...graph.operators import Operator
from ...kernels.cuda.kernel import CudaKernel
from ...kernels.cuda.schedule import schedule_divided
from ...kernels.kernel import TensorSpec
from ..implement import Implementation, LoweredGraph
from ..replace.convolutions import windows_of
from ..replace.rule import Alike, Rule
from ..replace.windows import Windows, enlarge
from .function import operator_function


def _key(lowered: LoweredGraph, op: Operator) -> Hashable | None:
    windows = windows_of(op)
    if windows is None or op.outputs[0] not in lowered.layouts:
        return None
    constants = all(constant_array(argument) is not None for argument in op.arguments)
    channelwise = all(kind == "channel" for kind in op.program.arguments)
    if not (constants and channelwise and len(op.outputs) == 1):
        return None
    return (op.anchor.args[0], windows.alignment, op.program, len(op.bindings))


def _merge(lowered: LoweredGraph, operators: tuple[int, ...]) -> Implementation:
    ops = [lowered.graph.operators[i] for i in operators]
    merged, preferences = merged_operator(ops), lowered.preferences
    layouts = {**lowered.layouts, merged.outputs[0]: lowered.layouts[ops[0].outputs[0]]}
    function, inputs = operator_function(merged, layouts)
    widths = [int(op.outputs[0].ty.shape.values[1]) for op in ops]
    scheduled = schedule_divided(function, widths, preferences.target, preferences.precision)
    specs = [TensorSpec(tuple(map(int, p.shape)), str(p.dtype)) for p in scheduled.function.params]
    kernel = CudaKernel(
        name="conv2d_merged",
        key=("merged", scheduled.name, tuple(widths), tvm_ffi.StructuralKey(function)),
        inputs=tuple(specs[: len(inputs)]),
        outputs=tuple(specs[len(inputs) :]),
        function=scheduled.function,
        variant=scheduled.name,
    )
    return Implementation(operators, kernel, inputs, tuple(op.outputs[0] for op in ops))


def merged_operator(ops: Sequence[Operator]) -> Operator:
    """One operator that computes the results of several, side by side along the channels.

    They differ in nothing but their channels, their weights and what is added and so on by channel,
    and in windows of one alignment.
    """
    windows = [windows_of(op) for op in ops]
    held = enlarge(windows)
    weights = [
        w.hold(constant_array(op.anchor.args[1]), of)
        for op, of, w in zip(ops, windows, [held] * len(ops), strict=True)
    ]
    builder = relax.BlockBuilder()
    data = ops[0].anchor.args[0]
    values: dict[relax.Var, relax.Expr] = {}
    bindings: list[relax.Binding] = []
    anchor = None
    with builder.function("merged", [data] if isinstance(data, relax.Var) else []):
        with builder.dataflow():
            for rows in zip(*(op.bindings for op in ops), strict=True):
                calls = [binding.value for binding in rows]
                if any(call.same_as(ops[0].anchor) for call in calls):
                    new = anchor = _convolution(calls[0], np.concatenate(weights), held)
                else:
                    new = _beside(calls, values)
                variable = builder.emit(new)
                bindings.append(relax.VarBinding(variable, builder.lookup_binding(variable)))
                values.update((binding.var, variable) for binding in rows)
            builder.emit_output(variable)
        builder.emit_func_output(variable)
    assert anchor is not None, "a convolution has its anchor among its bindings"
    return replace(ops[0], anchor=anchor, bindings=tuple(bindings), outputs=(bindings[-1].var,))


def _convolution(call: relax.Call, weights: np.ndarray, windows: Windows) -> relax.Expr:
    attrs = call.attrs
    after = [
        (w.out - 1) * w.stride + (w.kernel - 1) * w.dilation + 1 - w.size - w.before
        for w in (windows.rows, windows.columns)
    ]
    before = [windows.rows.before, windows.columns.before]
    return relax.op.nn.conv2d(
        call.args[0],
        relax.const(weights),
        strides=[int(stride) for stride in attrs.strides],
        padding=[*before, *(max(size, 0) for size in after)],
        dilation=[int(step) for step in attrs.dilation],
    )


def _beside(calls: Sequence[relax.Call], values: dict[relax.Var, relax.Expr]) -> relax.Call:
    """A step after the convolutions, of all their channels."""
    arguments = []
    for parts in zip(*(call.args for call in calls), strict=True):
        arrays = [constant_array(part) for part in parts]
        if arrays[0] is None:
            arguments.append(values.get(parts[0], parts[0]))
        elif arrays[0].size == 1 and all(np.array_equal(arrays[0], other) for other in arrays):
            arguments.append(parts[0])
        else:
            channels = arrays[0].ndim - 3
            arguments.append(relax.const(np.concatenate(arrays, axis=channels)))
    return relax.Call(calls[0].op, arguments, calls[0].attrs, calls[0].ty_args)


MERGE_CONVOLUTIONS = Rule("merge-convolutions", Alike(_key), _merge)
