# SPDX-License-Identifier: Apache-2.0
"""Small networks that are computed in half precision."""

from __future__ import annotations

from collections.abc import Callable

import tvm
from tvm import relax

from support.networks import constant, conv, relax_module

op = relax.op
BOUND = 0.02  # of the largest output: some roundings to 8 bits


def fire(emit, x):
    """Concatenation in place, and of a part that is copied."""
    x = emit(op.nn.relu(emit(conv(x, 32, 1))))
    left = emit(op.nn.relu(emit(conv(x, 48, 1, seed=1))))
    right = emit(op.nn.relu(emit(conv(x, 32, 3, seed=2, padding=1))))
    return emit(conv(emit(op.concat([left, right, x, x], 1)), 21, 1, seed=3))


def residual(emit, x):
    """Sums in epilogues, and pooled maps."""
    x = emit(op.nn.relu(emit(conv(x, 37, 3, padding=1))))
    y = emit(op.nn.relu(emit(conv(x, 37, 3, seed=1, padding=1))))
    x = emit(op.nn.relu(emit(op.add(emit(conv(y, 37, 3, seed=2, padding=1)), x))))
    pooled = emit(op.nn.max_pool2d(x, (3, 3), 2, 1))
    mean = emit(op.nn.avg_pool2d(pooled, (2, 2), 1))
    return emit(op.mean(emit(conv(mean, 10, 1, seed=3)), [2, 3]))


def separable(emit, x):
    x = emit(op.nn.silu(emit(conv(x, 77, 1))))
    weights = constant(77, 1, 3, 3, seed=4, scale=0.5)
    x = emit(op.nn.conv2d(x, weights, 2, padding=1, groups=77))
    return emit(conv(x, 20, 1, seed=5))


def groups(emit, x):
    """Wide groups, which multiply pairs, and narrow ones, which do not."""
    x = emit(conv(x, 64, 1))
    x = emit(op.nn.conv2d(x, constant(32, 32, 3, 3, seed=6, scale=0.1), padding=1, groups=2))
    x = emit(op.nn.conv2d(x, constant(32, 8, 3, 3, seed=7, scale=0.1), padding=1, groups=4))
    return emit(conv(x, 5, 1, seed=8))


def image(emit, x):
    """Three channels of a row-major image are blocked by four."""
    x = emit(op.strided_slice(x, [1], [0], [3]))
    return emit(conv(x, 40, 7, strides=2, padding=3))


def transformer(emit, x):
    """Products of rows; sums and normalisations stay in float32."""
    x = emit(op.reshape(x, (1, 20, 130)))
    for seed in (10, 20):
        normal = emit(op.nn.layer_norm(x, constant(130), constant(130, seed=seed), axes=[-1]))
        hidden = emit(op.matmul(normal, constant(130, 68, seed=seed + 1, scale=0.1)))
        hidden = emit(op.nn.gelu(emit(op.add(hidden, constant(68, seed=seed + 2)))))
        x = emit(op.add(emit(op.matmul(hidden, constant(68, 130, seed=seed + 3, scale=0.1))), x))
    return emit(op.matmul(x, constant(130, 33, seed=5, scale=0.1)))


def attention(emit, x):
    """Queries, keys and values, whose heads are reshaped and permuted."""
    x = emit(op.reshape(x, (1, 20, 130)))
    parts = []
    for seed in (1, 2, 3):
        part = emit(op.matmul(x, constant(130, 36, seed=seed, scale=0.1)))
        parts.append(emit(op.reshape(part, (1, 20, 3, 12))))
    x = emit(op.reshape(emit(op.nn.attention(*parts)), (1, 20, 36)))
    return emit(op.matmul(x, constant(36, 33, seed=5, scale=0.1)))


def left_to_tvm(emit, x):
    """Operators without a kernel read and write float32."""
    x = emit(conv(emit(op.sort(x, 1)), 24, 1))
    x = emit(op.sort(emit(conv(x, 20, 3, seed=1)), 1))
    return emit(conv(x, 9, 1, seed=2))


SHAPES = {"transformer": (1, 20, 13, 10), "attention": (1, 20, 13, 10)}
BODIES = [fire, residual, separable, groups, image, transformer, attention, left_to_tvm]


def module(body: Callable) -> tvm.IRModule:
    return relax_module(body, SHAPES.get(body.__name__, (1, 20, 13, 11)))
