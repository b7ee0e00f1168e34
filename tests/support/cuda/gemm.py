# SPDX-License-Identifier: Apache-2.0
"""Convolutions, matrix products and tiles for them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from tvm import relax

from support.cuda.functions import (
    conv_relu,
    function_of,
    tile_of,
)

HALVES = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16}
CONVOLUTIONS = {
    "3x3": ((1, 9, 10, 16), (3, 3, 16, 32), {"padding": 1}),
    "1x1": ((2, 5, 7, 12), (1, 1, 12, 20), {}),
    "1x7": ((1, 5, 11, 8), (1, 7, 8, 24), {"padding": (0, 3)}),
    "first": ((1, 15, 13, 3), (5, 5, 3, 17), {"padding": 2, "strides": 2}),
    "dilated": ((1, 11, 9, 6), (3, 3, 6, 10), {"padding": (2, 1), "dilation": (2, 1)}),
}


def simt(*sizes: int, part: tuple[int, int], teams: int = 1, slots: int = 1) -> Any:
    """A tile of rows, columns and a depth for ordinary units, from a form."""
    return lambda form: tile_of(form, "fp32", sizes, part, 1, teams, slots)


def warps(factors: str, *sizes: int, part: tuple[int, int], teams: int = 1, slots: int = 1) -> Any:
    """A tile for tensor cores, from a form."""
    return lambda form: tile_of(form, factors, sizes, part, 32, teams, slots)


def conv(case: str, dtype: str = "float32") -> Any:
    """A convolution by its name above."""
    image, weights, attributes = CONVOLUTIONS[case]
    shapes = (image, weights, (1, 1, 1, weights[3]))
    return function_of(conv_relu(**attributes), *shapes, dtype=dtype)


PRODUCTS: dict[str, tuple[Any, ...]] = {
    "dense": (
        lambda e, x, w: e(relax.op.matmul(x, e(relax.op.permute_dims(w)))),
        (1, 70),
        (36, 70),
    ),
    "batch": (lambda e, x, y: e(relax.op.matmul(x, y)), (3, 17, 21), (3, 21, 10)),
    "transposed": (
        lambda e, x, y: e(relax.op.matmul(e(relax.op.permute_dims(x)), y)),
        (24, 40),
        (24, 12),
    ),
    "heads": (
        lambda e, x, w: e(
            relax.op.permute_dims(
                e(relax.op.reshape(e(relax.op.matmul(e(relax.op.nn.relu(x)), w)), (1, 18, 4, 8))),
                [0, 2, 1, 3],
            )
        ),
        (1, 18, 16),
        (16, 32),
    ),
    "gated": (
        lambda e, x, y, z: (
            lambda p: e(relax.op.add(e(relax.op.multiply(p, e(relax.op.sigmoid(p)))), z))
        )(e(relax.op.matmul(x, y))),
        (13, 30),
        (30, 9),
        (13, 9),
    ),
}
