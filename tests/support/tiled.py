# SPDX-License-Identifier: Apache-2.0
"""Small networks whose kernels cover planes in all the ways that there are."""

from __future__ import annotations

from tvm import relax

from support.networks import constant, conv

op = relax.op


def convolutions(emit, x):
    """Pointwise and not, strided, padded, dilated, with chunks of unequal width."""
    x = emit(conv(x, 200, 1, seed=1))
    x = emit(op.nn.relu(emit(conv(x, 80, 3, padding=1, seed=2))))
    x = emit(op.nn.conv2d(x, constant(40, 80, 3, 3, seed=3), (2, 1), padding=(0, 2)))
    y = emit(op.nn.conv2d(x, constant(40, 40, 3, 2, seed=4), padding=(2, 1), dilation=(2, 1)))
    return emit(conv(y, 20, 1, seed=5))


def residual(emit, x):
    first = emit(conv(x, 20, 1, seed=1))
    x = emit(op.nn.relu(emit(op.add(emit(conv(first, 20, 3, padding=1, seed=2)), first))))
    return emit(conv(x, 20, 1, seed=3))


def channelwise(emit, x):
    x = emit(conv(x, 40, 1, seed=1))
    x = emit(op.nn.conv2d(x, constant(40, 1, 5, 5, seed=2), 2, padding=2, groups=40))
    y = emit(op.nn.max_pool2d(x, (3, 3), (2, 2), padding=1))
    z = emit(op.nn.avg_pool2d(x, (3, 2), (2, 2), padding=(1, 0, 1, 1), count_include_pad=True))
    return emit(conv(emit(op.add(y, z)), 20, 1, seed=3))


def grouped(emit, x):
    x = emit(conv(x, 64, 1, seed=1))
    x = emit(op.nn.conv2d(x, constant(64, 4, 3, 3, seed=2), padding=1, groups=16))
    x = emit(op.nn.conv2d(x, constant(32, 16, 3, 3, seed=3), padding=1, groups=4))
    x = emit(op.nn.conv2d(x, constant(36, 8, 3, 3, seed=4), padding=1, groups=4))
    return emit(conv(x, 20, 1, seed=5))


def channels(emit, x):
    x = emit(conv(x, 64, 1, seed=1))
    low = emit(op.strided_slice(x, [1], [0], [24]))
    high = emit(op.strided_slice(x, [1], [40], [64]))
    return emit(conv(emit(op.add(op.nn.relu(low), high)), 20, 1, seed=2))


def products(emit, x):
    x = emit(op.reshape(x, (-1, 40)))
    x = emit(op.add(emit(op.matmul(x, constant(40, 70, seed=1))), constant(70, seed=2)))
    y = emit(op.matmul(emit(op.nn.gelu(x)), constant(70, 70, seed=3)))
    return emit(op.add(emit(op.matmul(y, constant(70, 70, seed=4))), x))


BODIES = [convolutions, residual, channelwise, grouped, channels, products]
