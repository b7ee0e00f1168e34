# SPDX-License-Identifier: Apache-2.0
"""Matrix products."""

from __future__ import annotations

from dataclasses import replace

from ....graph.operators import Operator
from ....lowering.product import product_of
from ....relax_ir.constants import held_array
from ....schedule.rounding import BF16
from ..kernels.layout import PLAIN
from ..kernels.matmul.matmul import matmul_kernel
from ..kernels.matmul.packing import pack_matrix
from ..kernels.matmul.reduced_precision import pack_bf16_dot2, reduced_precision_matmul_kernel
from ..kernels.winograd.model import variant_name
from .base import Choice, LoweringConfig, epilogue_inputs, row_major
from .bindings import InputBinder, InputBinding
from .precision import rounds_operands
from .quantized import multiply_int8


def matmul(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Multiply matrices, vectors or batches of them; the right side may be constant weights.

    Raises
    ------
    NoRule
        If the product is not of float32, or its batches do not match.
    """
    core = config.core
    left, right = op.call.args
    product, arguments = product_of(op), epilogue_inputs(op, binder, PLAIN)
    int8 = multiply_int8(op, arguments, binder, config)
    if int8 is not None:
        return row_major(*int8, op)
    bf16 = rounds_operands(op, config)
    if product.weights:
        matrix = held_array(right).reshape(product.depth, product.columns)
        packed = pack_matrix(matrix, core.lanes)
        right_feed = InputBinding(pack_bf16_dot2(packed) if bf16 else packed)
    else:
        right_feed = binder.plain(right)
    left_feed = binder.bf16(left, PLAIN) if bf16 else binder.plain(left)
    bindings = (left_feed, right_feed, *arguments)
    kernel = (reduced_precision_matmul_kernel if bf16 else matmul_kernel)(product, core)
    if config.precision != "fp32" and product.weights:
        kernel = replace(kernel, variant=BF16 if bf16 else variant_name(None))
    return row_major(kernel, bindings, op)
