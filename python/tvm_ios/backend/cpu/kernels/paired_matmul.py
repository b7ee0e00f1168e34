# SPDX-License-Identifier: Apache-2.0
"""Matrix products of bfloat16 by weights, of which pairs are multiplied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ....target import Core
from ....tir.bfloat16 import STORED, as_pairs, dot, dot_source, nearest
from ....tir.tensor import TensorSpec
from ...shared.product import Matmul
from .kernel import Emit, Kernel
from .matmul import matmul_kernel


def pack_pairs(packed: np.ndarray) -> np.ndarray:
    """Round packed weights to bfloat16, and bring every two rows of their depth together.

    Returns
    -------
    numpy.ndarray
        Bits of bfloat16, ``[blocks, K / 2, lanes, 2]``.
    """
    number, depth, lanes = packed.shape
    split = nearest(packed).reshape(number, depth // 2, 2, lanes)
    return np.ascontiguousarray(split.transpose(0, 1, 3, 2))


def paired_matmul_kernel(matmul: Matmul, core: Core) -> Kernel:
    """Return the kernel of a product of bfloat16 by weights, of which pairs are multiplied.

    It is the kernel of a product of half the depth, whose elements are pairs. Its weights are
    packed by :func:`pack_pairs`.
    """
    assert matmul.weights, "only weights are brought together in pairs"
    assert matmul.depth % 2 == 0, "the depth consists of pairs"
    half = replace(matmul, depth=matmul.depth // 2)
    multiply_add = partial(dot, instruction_lanes=core.pair_lanes)
    kernel = matmul_kernel(half, core, multiply_add)
    shapes = [spec.shape for spec in kernel.inputs[:2]]

    def paired(emit: Emit) -> Emit:
        def on_pairs(buffers: Sequence[Any], *rest: Any) -> None:
            operands = map(as_pairs, buffers[:2], shapes)
            emit([*operands, *buffers[2:]], *rest)

        return on_pairs

    sources = dot_source(core.pair_products, core.lanes)
    return replace(
        kernel,
        key=("paired", kernel.key),
        inputs=(
            TensorSpec(matmul.left.shape, STORED),
            TensorSpec((*shapes[1], 2), STORED),
            *kernel.inputs[2:],
        ),
        phases=tuple(replace(p, emit=paired(p.emit), sources=sources) for p in kernel.phases),
    )
