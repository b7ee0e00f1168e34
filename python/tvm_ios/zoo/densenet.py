# SPDX-License-Identifier: Apache-2.0
"""DenseNet-BC (Huang et al., arXiv 1608.06993, section 3 and table 1)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from .builder import Builder
from .network import Network, images
from .units import EPSILON, classify, conv_norm
from .values import Handle, Value


def densenet(
    net: Builder[Handle], image: Value[Handle], *, blocks: Sequence[int], growth: int = 32
) -> Value[Handle]:
    """Describe a DenseNet with bottlenecks and a compression of one half.

    Parameters
    ----------
    net : Builder
        The builder.
    image : Value
        The input, of shape (batch, 3, height, width).
    blocks : sequence of int
        Layers of each dense block.
    growth : int
        Channels that a layer adds.

    Returns
    -------
    Value
        The logits, of shape (batch, 1000).
    """
    x = net.relu(conv_norm(net, image, 2 * growth, 7, stride=2))
    x = net.max_pool(x, 3, stride=2, padding=1)
    for i, layers in enumerate(blocks):
        if i:
            x = _transition(net, x)
        for _ in range(layers):
            x = net.concat([x, _layer(net, x, growth)])
    return classify(net, _norm_relu(net, x))


def _layer(net: Builder[Handle], x: Value[Handle], growth: int) -> Value[Handle]:
    """Emit the channels that a layer adds to those before it."""
    x = net.relu(conv_norm(net, _norm_relu(net, x), 4 * growth))
    return net.conv(x, growth, 3, padding=1, bias=False)


def _transition(net: Builder[Handle], x: Value[Handle]) -> Value[Handle]:
    """Halve the channels, the height and the width."""
    x = net.conv(_norm_relu(net, x), x.shape[1] // 2, 1, bias=False)
    return net.avg_pool(x, 2, stride=2)


def _norm_relu(net: Builder[Handle], x: Value[Handle]) -> Value[Handle]:
    return net.relu(net.batch_norm(x, epsilon=EPSILON))


DENSENET121 = Network("densenet121", images(224), partial(densenet, blocks=(6, 12, 24, 16)))
DENSENET_SMALL = Network("densenet_small", images(64), partial(densenet, blocks=(2, 3), growth=12))
