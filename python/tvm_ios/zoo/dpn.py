# SPDX-License-Identifier: Apache-2.0
"""Dual path networks (Chen et al., arXiv 1707.01629, table 1 and the authors' DPN-68)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from .builder import Builder
from .network import Network, images
from .units import CLASSES, EPSILON
from .values import Handle, Value


class Stage(NamedTuple):
    """A row of the table: the blocks of one map size."""

    blocks: int
    inner: int  # channels of the grouped convolution
    residual: int  # channels of the residual path
    dense: int  # channels that a block adds to the densely connected path


STAGES = (
    Stage(3, 128, 64, 16),
    Stage(4, 256, 128, 32),
    Stage(12, 512, 256, 32),
    Stage(3, 1024, 512, 64),
)


def dpn(
    net: Builder[Handle],
    image: Value[Handle],
    *,
    stages: Sequence[Stage] = STAGES,
    groups: int = 32,
    first: int = 10,
) -> Value[Handle]:
    """Describe a dual path network.

    Parameters
    ----------
    net : Builder
        The builder.
    image : Value
        The input, of shape (batch, 3, height, width).
    stages : sequence of Stage
        The blocks.
    groups : int
        Groups of the 3 x 3 convolutions.
    first : int
        Channels of the first convolution.

    Returns
    -------
    Value
        The logits, of shape (batch, 1000).
    """
    x = net.relu(_norm(net, net.conv(image, first, 3, stride=2, padding=1, bias=False)))
    x = net.max_pool(x, 3, stride=2, padding=1)
    residual = dense = x
    for number, stage in enumerate(stages):
        for block in range(stage.blocks):
            inputs = [x] if block == 0 else [residual, dense]
            stride = 2 if block == 0 and number else 1
            if block == 0:
                width = stage.residual + 2 * stage.dense
                y = _norm_conv(net, inputs, width, 1, stride=stride)
                residual = net.channels(y, 0, stage.residual)
                dense = net.channels(y, stage.residual, width)
            y = _norm_conv(net, inputs, stage.inner, 1)
            y = _norm_conv(net, [y], stage.inner, 3, stride=stride, groups=groups)
            y = _norm_conv(net, [y], stage.residual + stage.dense, 1)
            residual = net.add(residual, net.channels(y, 0, stage.residual))
            dense = net.concat([dense, net.channels(y, stage.residual, y.shape[1])])
        x = net.concat([residual, dense])
    x = net.flatten(net.global_avg_pool(net.relu(_norm(net, x))))
    return net.dense(x, CLASSES)


def _norm_conv(
    net: Builder[Handle],
    inputs: Sequence[Value[Handle]],
    channels: int,
    kernel: int,
    *,
    stride: int = 1,
    groups: int = 1,
) -> Value[Handle]:
    """Join the paths, normalise, activate and convolve."""
    x = net.concat(inputs) if len(inputs) > 1 else inputs[0]
    x = net.relu(_norm(net, x))
    return net.conv(
        x, channels, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False
    )


def _norm(net: Builder[Handle], x: Value[Handle]) -> Value[Handle]:
    return net.batch_norm(x, epsilon=EPSILON, gain=0.7)


DPN68 = Network("dpn68", images(224), dpn)

DPN68_SMALL = Network(
    "dpn68_small",
    images(36),
    partial(dpn, stages=(Stage(2, 24, 12, 5), Stage(2, 40, 20, 7)), groups=4),
)
