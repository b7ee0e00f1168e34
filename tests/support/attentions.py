# SPDX-License-Identifier: Apache-2.0
"""Attentions as cases, and their reference by NumPy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tvm

from support.networks import assert_close, run_kernel
from tvm_ios.backend.cpu.core import Core
from tvm_ios.backend.cpu.isa.bfloat16 import Bfloat16, exact, nearest
from tvm_ios.backend.cpu.kernels.attention.attention import attention_kernel
from tvm_ios.backend.cpu.kernels.attention.strip import Attention
from tvm_ios.backend.cpu.kernels.storage import with_storage


def attended(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, scale: float, bias: Any = 0.0
) -> np.ndarray:
    """The attention of ``[batch, rows, heads, columns]``, in float64."""
    heads = (x.transpose(0, 2, 1, 3).astype("float64") for x in (query, key, value))
    queries, keys, values = heads
    scores = queries @ keys.transpose(0, 1, 3, 2) * scale + bias
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
    return (weights @ values).transpose(0, 2, 1, 3)


class Sizes(NamedTuple):
    """Extents of an attention."""

    batch: int
    heads: int
    queries: int
    keys: int
    depth: int
    columns: int


SIZES = {
    "odd": Sizes(2, 3, 37, 53, 21, 19),
    "whole vectors": Sizes(1, 2, 64, 32, 32, 48),
    "one query": Sizes(1, 1, 1, 9, 5, 7),
    "several blocks of keys": Sizes(2, 2, 33, 1030, 16, 16),
    "rows that displace each other": Sizes(1, 64, 7, 40, 16, 32),
    "large heads": Sizes(1, 1, 21, 18, 300, 400),
}


def tensors(sizes: Sizes) -> list[np.ndarray]:
    """Queries, keys and values; scores differ by tens."""
    random = np.random.default_rng(0)
    shapes = [(rows, sizes.depth) for rows in (sizes.queries, sizes.keys)]
    shapes.append((sizes.keys, sizes.columns))
    return [
        2 * random.standard_normal((sizes.batch, rows, sizes.heads, columns)).astype("float32")
        for rows, columns in shapes
    ]


BF16_SIZES = {
    "odd": Sizes(2, 3, 37, 53, 22, 19),
    "whole vectors": Sizes(1, 2, 64, 32, 32, 48),
    "one key": Sizes(1, 2, 5, 1, 4, 20),
    "several blocks of keys": Sizes(2, 2, 33, 1031, 16, 16),
    "large heads": Sizes(1, 1, 21, 18, 300, 400),
}
ROUNDING = 2.0**-8  # exponentials are rounded to 8 bits


def check_bf16_dot2(sizes: Sizes, target: tvm.target.Target, core: Core, result: bool) -> None:
    """Compare an attention of bfloat16 with one in float64, of the same queries, keys and values.

    The ``result`` is bfloat16, too, or float32.
    """
    inputs = [exact(nearest(tensor)) for tensor in tensors(sizes)]
    kernel = attention_kernel(Attention(*sizes, scale=0.3), core, "pairs")
    kernel = with_storage(kernel, {}, {0: Bfloat16(core.bf16_dot2_lanes)} if result else {})
    (output,) = run_kernel(kernel, [nearest(tensor) for tensor in inputs], target)
    output = exact(output) if result else output
    assert_close(output, attended(*inputs, 0.3), 2 * ROUNDING if result else ROUNDING)
