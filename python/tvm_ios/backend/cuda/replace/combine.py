# SPDX-License-Identifier: Apache-2.0
"""What rules of replacement for a CUDA device share: operators made of others' parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from tvm import relax

from ....graph.operators import Operator
from ...shared.replacements.windows import Windows

Emit = Callable[[relax.Expr], relax.Var]

_FEWEST = 2 * 2048  # floating-point operations: there is no tile for fewer


def combines(op: Operator) -> bool:
    """Whether the anchor comes first and the result last, and a kernel by rule computes it."""
    if op.flops < _FEWEST or len(op.outputs) != 1:
        return False
    first, last = op.bindings[0], op.bindings[-1]
    return first.value.same_as(op.anchor) and op.outputs[0].same_as(last.var)


def rebuilt(op: Operator, body: Callable[[Emit], None]) -> Operator:
    """``op`` with other bindings.

    Parameters
    ----------
    op : Operator
    body : callable
        ``body(emit)`` emits them: the anchor first, the result last.
    """
    builder = relax.BlockBuilder()
    bindings: list[relax.VarBinding] = []

    def emit(value: relax.Expr) -> relax.Var:
        variable = builder.emit(value)
        bindings.append(relax.VarBinding(variable, builder.lookup_binding(variable)))
        return variable

    # What it reads is not known yet, and nobody asks: it is taken apart again.
    with builder.function("rebuilt", []):
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
    """``data`` convolved with weights ``[K, C, R, S]`` of any floating-point type."""
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
