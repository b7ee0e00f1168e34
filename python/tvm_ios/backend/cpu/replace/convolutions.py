# SPDX-License-Identifier: Apache-2.0
"""Replacement of convolutions that read the same tensor by one convolution.

IOS (section 3) concatenates the kernels of such convolutions, padding the smaller ones with zeros
to the size of the largest, and splits the result. Here no split is needed: the merged kernel writes
each block of channels to its own result.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from tvm import relax

from ....graph.operators import Operator
from ....lowering.implementation import Implementation
from ....lowering.replacements.rule import Alike, Rule
from ....lowering.replacements.windows import Windows, enlarge, held_windows, windows_of
from ....relax_ir.constants import constant_array, held_array
from ....relax_ir.expressions import static_shape
from ..kernels.conv.conv2d import conv2d_kernel
from ..kernels.conv.shape import Conv2d
from ..kernels.kernel import Kernel
from ..kernels.layout import Layout
from ..rules.base import CpuLoweredGraph
from ..rules.bindings import InputBinder, InputBinding
from ..rules.convolution import convolve_bf16
from ..rules.precision import rounds_operands
from ..rules.quantized import multiplies_bytes


def stays_blocked(lowered: CpuLoweredGraph, op: Operator) -> bool:
    """Return whether the results are blocked.

    They are unless another operator reads them row-major.
    """
    return all(lowered.layouts.get(value, Layout()).block for value in op.outputs)


def _key(lowered: CpuLoweredGraph, op: Operator) -> Hashable | None:
    windows = windows_of(op)
    if windows is None or not stays_blocked(lowered, op) or multiplies_bytes(lowered, op):
        return None
    constants = all(constant_array(argument) is not None for argument in op.arguments)
    channelwise = all(kind == "channel" for kind in op.epilogue.arguments)
    if not (constants and channelwise):
        return None
    return (op.call.args[0], windows.alignment, op.epilogue, rounds_operands(op, lowered.config))


def _merge(lowered: CpuLoweredGraph, operators: tuple[int, ...]) -> Implementation[Kernel]:
    ops = [lowered.graph.operators[i] for i in operators]
    windows = enlarge([held_windows(op) for op in ops])
    data, core = ops[0].call.args[0], lowered.config.core
    binder = lowered.binder
    source, result = binder.layout(data), Layout(core.lanes)
    batch, channels = static_shape(data, "a feature map")[:2]
    conv = Conv2d(
        batch=batch,
        channels=channels,
        rows=windows.rows,
        columns=windows.columns,
        out_channels=tuple(static_shape(op.anchor, "a result")[1] for op in ops),
        epilogue=ops[0].epilogue,
    )
    arguments = [
        np.concatenate([_argument(binder, op, a, result) for op in ops], axis=1)
        for a in range(len(ops[0].arguments))
    ]
    weights = [_weights(op, windows) for op in ops]
    if rounds_operands(ops[0], lowered.config):
        kernel, operands = convolve_bf16(conv, data, weights, binder, core)
    else:
        packed = [binder.weights(w, source.block or 1, core.lanes, 1).value for w in weights]
        operands = (binder.feature_map(data, source), InputBinding(np.concatenate(packed)))
        kernel = conv2d_kernel(conv, source, result, core)
    bindings = (*operands, *map(InputBinding, arguments))
    outputs = tuple(op.outputs[0] for op in ops)
    return lowered.implementation(operators, kernel, bindings, outputs)


def _weights(op: Operator, windows: Windows) -> relax.Expr:
    """Return the operator's weights in a kernel of the merged size."""
    return relax.const(windows.hold(held_array(op.call.args[1]), held_windows(op)))


def _argument(binder: InputBinder, op: Operator, index: int, layout: Layout) -> np.ndarray:
    shape = static_shape(op.anchor, "a result")
    return binder.argument(op.arguments[index], "channel", layout, shape).value


MERGE_CONVOLUTIONS = Rule("merge-convolutions", Alike(_key), _merge)
