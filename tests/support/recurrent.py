# SPDX-License-Identifier: Apache-2.0
"""Networks of recurrent layers."""

from __future__ import annotations

import tvm
from tvm import relax

from tvm_ios.ops.recurrence import Recurrence
from tvm_ios.ops.recurrence_function import recurrence


def recurrent_network(layer: Recurrence) -> tvm.IRModule:
    """A layer on what is computed; with its last output and its first one is computed, too."""
    builder = relax.BlockBuilder()
    parameters = [
        relax.Var(f"x{n}", relax.TensorType(shape, "float32"))
        for n, shape in enumerate(layer.inputs)
    ]
    with builder.function("main", parameters):
        with builder.dataflow():
            data, *others = parameters
            outputs = recurrence(builder, layer, [builder.emit(relax.op.negative(data)), *others])
            parts = [
                builder.emit(relax.op.tanh(builder.emit(relax.TupleGetItem(outputs, n))))
                for n in (len(layer.outputs) - 1, 0)
            ]
            result = builder.emit_output(relax.Tuple(parts))
        builder.emit_func_output(result)
    return builder.get()
