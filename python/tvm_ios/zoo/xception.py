# SPDX-License-Identifier: Apache-2.0
"""Xception (Chollet, arXiv 1610.02357, figure 5)."""

from __future__ import annotations

from functools import partial

from .builder import Builder
from .network import Network, images
from .units import classify, conv_norm, separable_conv
from .values import Handle, Value

# Sums of two branches stay of order one if each adds less than one.
BRANCH_GAIN = 0.5


def xception(
    net: Builder[Handle], image: Value[Handle], *, scale: int = 1, middle: int = 8
) -> Value[Handle]:
    """Describe Xception.

    Parameters
    ----------
    net : Builder
        The builder.
    image : Value
        The input, of shape (batch, 3, height, width).
    scale : int
        What all numbers of channels are divided by.
    middle : int
        Blocks of the middle flow.

    Returns
    -------
    Value
        The logits, of shape (batch, 1000).
    """
    x = net.relu(conv_norm(net, image, 32 // scale, 3, stride=2, padding=0))
    x = net.relu(conv_norm(net, x, 64 // scale, 3, padding=0))
    for channels in (128, 256, 728):
        own = channels // scale
        x = _halving(net, x, (own, own), starts=channels > 128)
    for _ in range(middle):
        y = x
        for _ in range(3):
            y = separable_conv(net, net.relu(y), y.shape[1], 3, gain=BRANCH_GAIN)
        x = net.add(x, y)
    x = _halving(net, x, (728 // scale, 1024 // scale))
    for channels in (1536, 2048):
        x = net.relu(separable_conv(net, x, channels // scale, 3))
    return classify(net, x)


def _halving(
    net: Builder[Handle], x: Value[Handle], channels: tuple[int, int], *, starts: bool = True
) -> Value[Handle]:
    """Emit two separable convolutions and a pooling, beside a 1 x 1 convolution of stride 2.

    The block starts with a ReLU if ``starts``.
    """
    shortcut = conv_norm(net, x, channels[1], stride=2, gain=BRANCH_GAIN)
    y = separable_conv(net, net.relu(x) if starts else x, channels[0], 3)
    y = separable_conv(net, net.relu(y), channels[1], 3, gain=BRANCH_GAIN)
    return net.add(shortcut, net.max_pool(y, 3, stride=2, padding=1))


XCEPTION = Network("xception", images(299), xception)

XCEPTION_SMALL = Network("xception_small", images(71), partial(xception, scale=8, middle=1))
