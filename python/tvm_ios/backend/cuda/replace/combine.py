# SPDX-License-Identifier: Apache-2.0
"""Helpers of the replacement rules for CUDA devices: new operators from parts of others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from tvm import relax

from ....graph.operators import Operator
from ....lowering.replacements.windows import Windows
from ....relax_ir.building import building

Emit = Callable[[relax.Expr], relax.Var]

_FEWEST = 2 * 2048  # floating-point operations; no tile exists for fewer


def combines(op: Operator) -> bool:
    """Return whether ``op`` suits a rule's kernel: its anchor comes first, its result last."""
    if op.flops < _FEWEST or len(op.outputs) != 1:
        return False
    first, last = op.bindings[0], op.bindings[-1]
    return first.value.same_as(op.anchor) and op.outputs[0].same_as(last.var)


def rebuilt(op: Operator, body: Callable[[Emit], None]) -> Operator:
    """Return ``op`` with other bindings.

    Parameters
    ----------
    op : Operator
        The operator to rebuild.
    body : callable
        ``body(emit)`` emits the new bindings: the anchor first, the result last.

    Returns
    -------
    Operator
        The rebuilt operator; its inputs are not set.
    """
    builder = relax.BlockBuilder()
    bindings: list[relax.VarBinding] = []

    def emit(value: relax.Expr) -> relax.Var:
        variable = builder.emit(value)
        bindings.append(relax.VarBinding(variable, builder.lookup_binding(variable)))
        return variable

    # Its inputs stay unset: only its bindings are read.
    with building(), builder.function("rebuilt", []):
        with builder.dataflow():
            body(emit)
            builder.emit_output(bindings[-1].var)
        builder.emit_func_output(bindings[-1].var)
    bound = {binding.var for binding in bindings}
    read = (v for b in bindings for v in relax.analysis.free_vars(b.value) if v not in bound)
    return replace(
        op,
        anchor=bindings[0].value,
        bindings=tuple(bindings),
        inputs=tuple(dict.fromkeys(read)),
        outputs=(bindings[-1].var,),
    )


def convolution(data: relax.Expr, weights: np.ndarray, windows: Windows) -> relax.Expr:
    """Return ``data`` convolved with weights ``[K, C, R, S]`` of any floating-point type.

    Parameters
    ----------
    data : relax.Expr
        The feature map, ``[N, C, H, W]``.
    weights : numpy.ndarray
        ``[K, C, R, S]``.
    windows : Windows
        How the kernel slides over height and width.

    Returns
    -------
    relax.Expr
        A call of ``conv2d``.
    """
    axes = (windows.rows, windows.columns)
    after = [(w.out - 1) * w.stride + (w.kernel - 1) * w.dilation + 1 - w.size - w.before
             for w in axes]  # fmt: skip
    return relax.op.nn.conv2d(
        data,
        relax.const(weights.astype("float32"), "float32"),
        strides=[w.stride for w in axes],
        padding=[*(w.before for w in axes), *(max(size, 0) for size in after)],
        dilation=[w.dilation for w in axes],
    )
