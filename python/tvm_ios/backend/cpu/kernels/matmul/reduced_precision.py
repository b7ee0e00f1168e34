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
from .packing import pack_matrix


def pack_bf16_dot2(packed: np.ndarray) -> np.ndarray:
    """Round packed weights to bfloat16, and bring every two rows of their depth together.

    Returns
    -------
    numpy.ndarray
        Bits of bfloat16, ``[blocks, K / 2, lanes, 2]``.
    """
    return brought_together(nearest(packed), 1, 2)


def pack_int8_dot4(packed: np.ndarray, multiplication: Multiplication) -> np.ndarray:
    """Bring every four rows of the depth of packed weights of int8 together.

    Returns
    -------
    numpy.ndarray
        What a core multiplies by, of int8 ``[blocks, K / 4, lanes, 4]``.
    """
    return multiplication.pack(brought_together(packed, 1, 4))


def pack_lowest(weights: np.ndarray, low: int, lanes: int) -> np.ndarray:
    """Return what ``low`` in all rows of weights ``[K, N]`` adds to each column.

    Returns
    -------
    numpy.ndarray
        int32 ``[ceil(N / lanes), lanes]``.
    """
    sums = low * weights.sum(axis=0, dtype="int32")
    return pack_matrix(sums[None], lanes)[:, 0]


def reduced_precision_matmul_kernel(
    matmul: Matmul, core: Core, factors: Factors = "pairs", low: int = 0
) -> Kernel:
    """Return the kernel of a product by weights, a step of which is a dot2 or a dot4.

    It is the kernel of a product of a part of the depth, whose elements are the operands of a dot2
    or dot4. Its weights are packed by :func:`pack_bf16_dot2` or :func:`pack_int8_dot4`.

    The ``low`` of a left side of bytes is added to what is stored, and so is what the
    multiplication subtracts. If the sum is not zero, the third input is what :func:`pack_lowest`
    returns of it.
    """
    multiplication = Multiplication.of(factors, core)
    step, low = multiplication.step, low + multiplication.offset
    assert matmul.weights, "only weights are brought together"
    assert matmul.depth % step == 0, "the depth consists of whole dot2 or dot4"
    product = replace(matmul, depth=matmul.depth // step)
    kernel = matmul_kernel(product, core, factors, bool(low))
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
            TensorSpec((*shapes[1], step // multiplication.words), multiplication.right),
            *kernel.inputs[2:],
        ),
        phases=tuple(replace(p, emit=together(p.emit)) for p in kernel.phases),
    )
