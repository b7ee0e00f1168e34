# SPDX-License-Identifier: Apache-2.0
"""Replacement of products of one matrix with several constant matrices by one product.

The queries, keys and values of attention are an example. The weights lie side by side, and so do
the biases. Each result is a tensor of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np
from tvm import relax

from ....graph.operators import Operator
from ....lowering.implementation import Implementation
from ....lowering.product import product_of, shared_left_side
from ....lowering.replacements.rule import Alike, Rule
from ....relax_ir.constants import held_array
from ..kernels.kernel import Kernel
from ..kernels.layout import PLAIN
from ..kernels.matmul.matmul import matmul_kernel
from ..kernels.matmul.packing import pack_side_by_side
from ..kernels.matmul.reduced_precision import pack_bf16_dot2, reduced_precision_matmul_kernel
from ..rules.base import CpuLoweredGraph, on_row_major
from ..rules.bindings import InputBinding
from ..rules.precision import rounds_operands
from ..rules.quantized import multiplies_bytes


def _merge(lowered: CpuLoweredGraph, operators: tuple[int, ...]) -> Implementation[Kernel]:
    ops = [lowered.graph.operators[i] for i in operators]
    products, core = [product_of(op) for op in ops], lowered.config.core
    columns = tuple(product.columns for product in products)
    merged = replace(products[0], columns=sum(columns), results=columns)
    arguments = [
        _side_by_side([op.arguments[a] for op in ops], 1, core.lanes).ravel()
        for a in range(len(merged.epilogue.arguments))
    ]
    left = ops[0].call.args[0]
    packed = _side_by_side([op.call.args[1] for op in ops], merged.depth, core.lanes)
    if rounds_operands(ops[0], lowered.config):
        operands = (lowered.binder.bf16(left, PLAIN), InputBinding(pack_bf16_dot2(packed)))
        kernel = reduced_precision_matmul_kernel(merged, core)
    else:
        operands = (lowered.binder.plain(left), InputBinding(packed))
        kernel = matmul_kernel(merged, core)
    bindings = (*operands, *map(InputBinding, arguments))
    outputs = tuple(op.outputs[0] for op in ops)
    kernel = on_row_major(kernel, bindings, outputs)
    return lowered.implementation(operators, kernel, bindings, outputs)


def _side_by_side(constants: Sequence[relax.Expr], rows: int, lanes: int) -> np.ndarray:
    """Pack constants of ``rows`` rows for one kernel."""
    return pack_side_by_side([held_array(c).reshape(rows, -1) for c in constants], lanes)


def _key(lowered: CpuLoweredGraph, op: Operator) -> Hashable | None:
    key = shared_left_side(lowered, op)
    if key is None or multiplies_bytes(lowered, op):
        return None
    return key, rounds_operands(op, lowered.config)


MERGE_DENSE: Rule[CpuLoweredGraph, Kernel] = Rule("merge-dense", Alike(_key), _merge)
