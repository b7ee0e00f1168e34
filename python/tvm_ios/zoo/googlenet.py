# SPDX-License-Identifier: Apache-2.0
"""GoogLeNet without its auxiliary heads (Szegedy et al., arXiv 1409.4842, table 1).

The two local response normalisations of the stem are omitted, as in current implementations. Pools
that halve a map round its size up, which yields the sizes in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from .builder import Builder
from .network import Network, images
from .units import classify
from .values import Handle, Value


class Inception(NamedTuple):
    """A row of the paper's table: channels of each branch and of its reduction."""

    branch1x1: int
    reduce3x3: int
    branch3x3: int
    reduce5x5: int
    branch5x5: int
    pooled: int


STAGES = (
    (Inception(64, 96, 128, 16, 32, 32), Inception(128, 128, 192, 32, 96, 64)),
    (
        Inception(192, 96, 208, 16, 48, 64),
        Inception(160, 112, 224, 24, 64, 64),
        Inception(128, 128, 256, 24, 64, 64),
        Inception(112, 144, 288, 32, 64, 64),
        Inception(256, 160, 320, 32, 128, 128),
    ),
    (Inception(256, 160, 320, 32, 128, 128), Inception(384, 192, 384, 48, 128, 128)),
)


def googlenet(
    net: Builder[Handle],
    image: Value[Handle],
    *,
    stages: Sequence[Sequence[Inception]] = STAGES,
    stem: tuple[int, int] = (64, 192),
) -> Value[Handle]:
    """Describe GoogLeNet.

    Parameters
    ----------
    net : Builder
        The builder.
    image : Value
        The input, of shape (batch, 3, height, width).
    stages : sequence of sequence of Inception
        The modules for each map size; each size is half the one before.
    stem : (int, int)
        Channels of the first two map sizes.

    Returns
    -------
    Value
        The logits, of shape (batch, 1000).
    """
    first, second = stem
    x = _halved(net, _conv(net, image, first, 7, stride=2))
    x = _conv(net, _conv(net, x, first), second, 3)
    for modules in stages:
        x = _halved(net, x)
        for channels in modules:
            x = _inception(net, x, channels)
    return classify(net, x)


def _inception(net: Builder[Handle], x: Value[Handle], channels: Inception) -> Value[Handle]:
    """Emit an Inception module (figure 2 (b))."""
    branch1x1 = _conv(net, x, channels.branch1x1)
    branch3x3 = _conv(net, _conv(net, x, channels.reduce3x3), channels.branch3x3, 3)
    branch5x5 = _conv(net, _conv(net, x, channels.reduce5x5), channels.branch5x5, 5)
    pooled = _conv(net, net.max_pool(x, 3, padding=1), channels.pooled)
    return net.concat([branch1x1, branch3x3, branch5x5, pooled])


def _conv(
    net: Builder[Handle], x: Value[Handle], channels: int, kernel: int = 1, *, stride: int = 1
) -> Value[Handle]:
    return net.relu(net.conv(x, channels, kernel, stride=stride, padding=kernel // 2))


def _halved(net: Builder[Handle], x: Value[Handle]) -> Value[Handle]:
    return net.max_pool(x, 3, stride=2, ceil=True)


GOOGLENET = Network("googlenet", images(224), googlenet)

GOOGLENET_SMALL = Network(
    "googlenet_small",
    images(48),
    partial(
        googlenet,
        stages=((Inception(8, 6, 12, 4, 8, 8),), (Inception(20, 12, 24, 6, 10, 10),)),
        stem=(8, 20),
    ),
)
