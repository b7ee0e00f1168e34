# SPDX-License-Identifier: Apache-2.0
"""Matrix products by weights in reduced precision, by bf16 dot2 or int8 dot4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .....lowering.product import Matmul
from .....ops.tensor import TensorSpec
from ...core import Core
from ...isa.bfloat16 import nearest
from ..factors import Factors, Multiplication
from ..kernel import Emit, Kernel
from ..layout import brought_together
from .matmul import matmul_kernel


def pack_bf16_dot2(packed: np.ndarray) -> np.ndarray:
    """Round packed weights to bfloat16, and bring every two rows of their depth together.

    Returns
    -------
    numpy.ndarray
        Bits of bfloat16, ``[blocks, K / 2, lanes, 2]``.
    """
    return brought_together(nearest(packed), 1, 2)


def pack_int8_dot4(packed: np.ndarray) -> np.ndarray:
    """Bring every four rows of the depth of packed weights of int8 together.

    Returns
    -------
    numpy.ndarray
        int8 ``[blocks, K / 4, lanes, 4]``.
    """
    return brought_together(packed, 1, 4)


def reduced_precision_matmul_kernel(
    matmul: Matmul, core: Core, factors: Factors = "pairs"
) -> Kernel:
    """Return the kernel of a product by weights, a step of which is a dot2 or a dot4.

    It is the kernel of a product of a part of the depth, whose elements are the operands of a dot2
    or dot4. Its weights are packed by :func:`pack_bf16_dot2` or :func:`pack_int8_dot4`.
    """
    multiplication = Multiplication.of(factors, core)
    step = multiplication.step
    assert matmul.weights, "only weights are brought together"
    assert matmul.depth % step == 0, "the depth consists of whole dot2 or dot4"
    kernel = matmul_kernel(replace(matmul, depth=matmul.depth // step), core, factors)
    shapes = [spec.shape for spec in kernel.inputs[:2]]

    def together(emit: Emit) -> Emit:
        def on_several(buffers: Sequence[Any], *rest: Any) -> None:
            operands = map(multiplication.together, buffers[:2], shapes)
            emit([*operands, *buffers[2:]], *rest)

        return on_several

    return replace(
        kernel,
        key=(factors, kernel.key),
        inputs=(
            TensorSpec(matmul.left.shape, multiplication.left),
            TensorSpec((*shapes[1], step), multiplication.right),
            *kernel.inputs[2:],
        ),
        phases=tuple(replace(p, emit=together(p.emit)) for p in kernel.phases),
    )
