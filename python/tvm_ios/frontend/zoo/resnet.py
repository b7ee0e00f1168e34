# SPDX-License-Identifier: Apache-2.0
"""Residual networks (He et al., arXiv 1512.03385, table 1).

In a bottleneck that halves the map, the 3 x 3 convolution has the stride, as in the reference
implementations of today; the paper gave it to the 1 x 1 convolution before.
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

# A sum of many branches stays of order one where each adds little.
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
        What to build on.
    image : Value
        The input, of shape (batch, 3, height, width).
    block : callable
        A block's residual branch: from the builder, the block's input, its width and its stride.
    stages : sequence of int
        Blocks on each size of map, each half of that before.
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
    """Two 3 x 3 convolutions: figure 5, left."""
    x = net.relu(conv_norm(net, x, width, 3, stride=stride))
    return conv_norm(net, x, width, 3, gain=BRANCH_GAIN)


def bottleneck(net: Builder[Handle], x: Value[Handle], width: int, stride: int) -> Value[Handle]:
    """A 3 x 3 convolution on fewer channels: figure 5, right."""
    x = net.relu(conv_norm(net, x, width))
    x = net.relu(conv_norm(net, x, width, 3, stride=stride))
    return conv_norm(net, x, 4 * width, gain=BRANCH_GAIN)


def _residual(
    net: Builder[Handle], x: Value[Handle], block: Block, width: int, stride: int
) -> Value[Handle]:
    """Add a block's branch to its input, projected where the shapes differ (option B)."""
    branch = block(net, x, width, stride)
    if branch.shape != x.shape:
        x = conv_norm(net, x, branch.shape[1], stride=stride)
    return net.relu(net.add(branch, x))


RESNET18 = Network("resnet18", images(224), partial(resnet, block=basic, stages=(2, 2, 2, 2)))
RESNET50 = Network("resnet50", images(224), partial(resnet, block=bottleneck, stages=(3, 4, 6, 3)))

# Both kinds of shortcut, and 12 or 24 channels, which fill no block of 16.
RESNET50_SMALL = Network(
    "resnet50_small", images(32), partial(resnet, block=bottleneck, stages=(2, 1), width=12)
)
