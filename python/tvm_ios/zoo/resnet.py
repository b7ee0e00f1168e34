# SPDX-License-Identifier: Apache-2.0
"""Residual networks (He et al., arXiv 1512.03385, table 1), and those with grouped convolutions.

The latter are ResNeXt (Xie et al., arXiv 1611.05431, table 1). In a bottleneck that halves the
map, the 3 x 3 convolution has the stride, as in current reference implementations. In the paper,
the preceding 1 x 1 convolution has it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .builder import Builder
from .network import Network, images
from .units import classify, conv_norm
from .values import Handle, Value

Block = Callable[[Builder[Any], Value[Any], int, int], Value[Any]]

# A sum of many branches stays of order one if each adds little.
BRANCH_GAIN = 0.25


def resnet(
    net: Builder[Handle],
    image: Value[Handle],
    *,
    block: Block,
    stages: Sequence[int],
    width: int = 64,
) -> Value[Handle]:
    """Describe a residual network.

    Parameters
    ----------
    net : Builder
        The builder.
    image : Value
        The input, of shape (batch, 3, height, width).
    block : callable
        Emits a block's residual branch; takes the builder, the block's input, its width and its
        stride.
    stages : sequence of int
        Blocks for each map size; each size is half the one before.
    width : int
        Channels of the first convolution and width of the first stage's blocks.

    Returns
    -------
    Value
        The logits, of shape (batch, 1000).
    """
    x = net.relu(conv_norm(net, image, width, 7, stride=2))
    x = net.max_pool(x, 3, stride=2, padding=1)
    for stage, blocks in enumerate(stages):
        for i in range(blocks):
            x = _residual(net, x, block, width << stage, 2 if stage and not i else 1)
    return classify(net, x)


def basic(net: Builder[Handle], x: Value[Handle], width: int, stride: int) -> Value[Handle]:
    """Emit two 3 x 3 convolutions (figure 5, left).

    Parameters
    ----------
    net : Builder
        The builder.
    x : Value
        The block's input, [N, C, H, W].
    width, stride : int
        Channels of the block, and the stride of its first convolution.
    """
    x = net.relu(conv_norm(net, x, width, 3, stride=stride))
    return conv_norm(net, x, width, 3, gain=BRANCH_GAIN)


def bottleneck(
    net: Builder[Handle],
    x: Value[Handle],
    width: int,
    stride: int,
    *,
    groups: int = 1,
    inner: int = 1,
) -> Value[Handle]:
    """Emit a 3 x 3 convolution between two 1 x 1 convolutions (figure 5, right).

    Parameters
    ----------
    net : Builder
        The builder.
    x : Value
        The block's input, [N, C, H, W].
    width, stride : int
        A quarter of the block's output channels, and the stride of the 3 x 3 convolution.
    groups : int
        Groups of the 3 x 3 convolution.
    inner : int
        Its channels, in units of ``width``.
    """
    x = net.relu(conv_norm(net, x, inner * width))
    x = net.relu(conv_norm(net, x, inner * width, 3, stride=stride, groups=groups))
    return conv_norm(net, x, 4 * width, gain=BRANCH_GAIN)


def _residual(
    net: Builder[Handle], x: Value[Handle], block: Block, width: int, stride: int
) -> Value[Handle]:
    """Add a block's branch to its input, which is projected if the shapes differ (option B)."""
    branch = block(net, x, width, stride)
    if branch.shape != x.shape:
        x = conv_norm(net, x, branch.shape[1], stride=stride)
    return net.relu(net.add(branch, x))


RESNET18 = Network("resnet18", images(224), partial(resnet, block=basic, stages=(2, 2, 2, 2)))
RESNET50 = Network("resnet50", images(224), partial(resnet, block=bottleneck, stages=(3, 4, 6, 3)))
RESNEXT50 = Network(
    "resnext50",
    images(224),
    partial(resnet, block=partial(bottleneck, groups=32, inner=2), stages=(3, 4, 6, 3)),
)

# Covers both kinds of shortcut, and 12 or 24 channels, which are not multiples of 16.
RESNET50_SMALL = Network(
    "resnet50_small", images(32), partial(resnet, block=bottleneck, stages=(2, 1), width=12)
)

# Groups of 3 and 6 channels, which are no multiples of a vector.
RESNEXT50_SMALL = Network(
    "resnext50_small",
    images(32),
    partial(resnet, block=partial(bottleneck, groups=8, inner=2), stages=(2, 1), width=12),
)
