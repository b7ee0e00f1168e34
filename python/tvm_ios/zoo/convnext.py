# SPDX-License-Identifier: Apache-2.0
"""ConvNeXt (Liu et al., arXiv 2201.03545, figure 4 and appendix A)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from .builder import Builder
from .network import Network, images
from .units import CLASSES
from .values import Handle, Value

EPSILON = 1e-6
CHANNELS_LAST, CHANNELS_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


def convnext(
    net: Builder[Handle],
    image: Value[Handle],
    *,
    blocks: Sequence[int],
    channels: Sequence[int],
) -> Value[Handle]:
    """Describe ConvNeXt.

    Parameters
    ----------
    net : Builder
        The builder.
    image : Value
        The input, of shape (batch, 3, height, width).
    blocks, channels : sequence of int
        Blocks of each stage, and their channels.

    Returns
    -------
    Value
        The logits, of shape (batch, 1000).
    """
    x = net.conv(image, channels[0], 4, stride=4)
    x = _last_norm(net, x)
    for stage, (count, width) in enumerate(zip(blocks, channels, strict=True)):
        if stage:
            x = net.conv(_last_norm(net, x), width, 2, stride=2)
        for _ in range(count):
            x = _block(net, x)
    x = net.flatten(net.global_avg_pool(x))
    return net.dense(net.layer_norm(x, epsilon=EPSILON), CLASSES)


def _block(net: Builder[Handle], x: Value[Handle]) -> Value[Handle]:
    """Emit a depthwise convolution, a norm and two dense layers, added to the input."""
    width = x.shape[1]
    y = net.transpose(net.conv(x, width, 7, padding=3, groups=width), CHANNELS_LAST)
    y = net.layer_norm(y, epsilon=EPSILON)
    y = net.rescale(net.dense(net.gelu(net.dense(y, 4 * width)), width))
    return net.add(x, net.transpose(y, CHANNELS_FIRST))


def _last_norm(net: Builder[Handle], x: Value[Handle]) -> Value[Handle]:
    """Normalise the channels of each pixel."""
    y = net.layer_norm(net.transpose(x, CHANNELS_LAST), epsilon=EPSILON)
    return net.transpose(y, CHANNELS_FIRST)


def _network(name: str, size: int, blocks: Sequence[int], channels: Sequence[int]) -> Network:
    return Network(name, images(size), partial(convnext, blocks=blocks, channels=channels))


CONVNEXT_TINY = _network("convnext_tiny", 224, (3, 3, 9, 3), (96, 192, 384, 768))

CONVNEXT_TINY_SMALL = _network("convnext_tiny_small", 36, (1, 1), (20, 40))
