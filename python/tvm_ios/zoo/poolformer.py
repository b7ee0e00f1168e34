# SPDX-License-Identifier: Apache-2.0
"""PoolFormer (Yu et al., arXiv 2111.11418, figure 2 and table 1)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from .builder import Builder
from .network import Network, images
from .units import CLASSES, EPSILON
from .values import Handle, Value


def poolformer(
    net: Builder[Handle],
    image: Value[Handle],
    *,
    blocks: Sequence[int],
    channels: Sequence[int],
) -> Value[Handle]:
    """Describe a PoolFormer.

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
    x = net.conv(image, channels[0], 7, stride=4, padding=2)
    for stage, (count, width) in enumerate(zip(blocks, channels, strict=True)):
        if stage:
            x = net.conv(x, width, 3, stride=2, padding=1)
        for _ in range(count):
            x = _block(net, x)
    x = net.flatten(net.global_avg_pool(net.map_norm(x, epsilon=EPSILON)))
    return net.dense(x, CLASSES)


def _block(net: Builder[Handle], x: Value[Handle]) -> Value[Handle]:
    """Mix each channel's neighbouring pixels by a pooling, then each pixel's channels."""
    y = net.map_norm(x, epsilon=EPSILON)
    mixed = net.subtract(net.avg_pool(y, 3, padding=1, count_padding=False), y)
    x = net.add(x, net.rescale(mixed, axis=-3))
    y = net.conv(net.map_norm(x, epsilon=EPSILON), 4 * x.shape[1], 1)
    return net.add(x, net.rescale(net.conv(net.gelu(y), x.shape[1], 1), axis=-3))


def _network(name: str, size: int, blocks: Sequence[int], channels: Sequence[int]) -> Network:
    return Network(name, images(size), partial(poolformer, blocks=blocks, channels=channels))


POOLFORMER_S12 = _network("poolformer_s12", 224, (2, 2, 6, 2), (64, 128, 320, 512))

POOLFORMER_S12_SMALL = _network("poolformer_s12_small", 35, (1, 1), (12, 20))
