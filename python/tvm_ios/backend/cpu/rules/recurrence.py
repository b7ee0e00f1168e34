# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers."""

from __future__ import annotations

import numpy as np

from ....graph.operators import Operator
from ....lowering.no_rule import NoRule
from ....ops.recurrence_function import recurrence_of
from ....relax_ir.expressions import known_shape
from ..kernels.layout import PLAIN
from ..kernels.rows.recurrence import (
    pack_quantized,
    pack_recurrent,
    recurrence_kernel,
)
from .base import Choice, LoweringConfig
from .bindings import InputBinder, InputBinding


def recurrence(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Compute a recurrent layer.

    Raises
    ------
    NoRule
        If the function that is called is another one, the tuple of outputs itself is read, the
        layer is in double precision, or its weights are quantised and not constant.
    """
    layer = recurrence_of(op.functions[op.call.args[0]], known_shape(op.call.args[1].fields[0]))
    if layer is None or layer.dtype != "float32" or op.bindings[0].var in op.outputs:
        raise NoRule
    index = {binding.var: binding.value.index for binding in op.bindings[1:]}
    read = [index[value] for value in op.outputs]
    bindings = [*map(binder.plain, op.call.args[1].fields)]
    weights, scales = (bindings[place].value for place in (1, 2))
    packed = isinstance(weights, np.ndarray)
    if layer.quantized:
        if not packed or not isinstance(scales, np.ndarray):
            raise NoRule
        arrays = pack_quantized(weights, scales, layer, config.core, config.workers)
        bindings[1], bindings[2], sums = map(InputBinding, arrays)
        bindings.append(sums)
    elif packed:
        array = pack_recurrent(weights, layer, config.core, config.workers)
        bindings[1] = InputBinding(array)
    kernel = recurrence_kernel(layer, read, config.core, config.workers, packed=packed)
    return Choice(kernel, tuple(bindings), PLAIN)
