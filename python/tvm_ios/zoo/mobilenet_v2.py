# SPDX-License-Identifier: Apache-2.0
"""MobileNetV2 (Sandler et al., arXiv 1801.04381, tables 1 and 2)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from .builder import Builder
from .network import Network, images
from .units import classify, conv_norm
from .values import Handle, Value

# A bottleneck's result has no ReLU that would halve its variance, and a shortcut increases it.
LINEAR_GAIN = 0.5**0.5
BRANCH_GAIN = 0.35


class Stage(NamedTuple):
    """A row of the paper's table 2."""

    expansion: int
    channels: int
    blocks: int
    stride: int


STAGES = (
    Stage(1, 16, 1, 1),
    Stage(6, 24, 2, 2),
    Stage(6, 32, 3, 2),
    Stage(6, 64, 4, 2),
    Stage(6, 96, 3, 1),
    Stage(6, 160, 3, 2),
    Stage(6, 320, 1, 1),
)


def mobilenet_v2(
    net: Builder[Handle],
    image: Value[Handle],
    *,
    stages: Sequence[Stage] = STAGES,
    first: int = 32,
    last: int = 1280,
) -> Value[Handle]:
    """Describe MobileNetV2.

    Parameters
    ----------
    net : Builder
        The builder.
    image : Value
        The input, of shape (batch, 3, height, width).
    stages : sequence of Stage
        The bottlenecks.
    first, last : int
        Channels of the convolutions before and after the bottlenecks.

    Returns
    -------
    Value
        The logits, of shape (batch, 1000).
    """
    x = net.relu6(conv_norm(net, image, first, 3, stride=2))
    for stage in stages:
        for i in range(stage.blocks):
            x = _bottleneck(net, x, stage, stage.stride if i == 0 else 1)
    return classify(net, net.relu6(conv_norm(net, x, last)))


def _bottleneck(net: Builder[Handle], x: Value[Handle], stage: Stage, stride: int) -> Value[Handle]:
    """Expand, convolve depthwise, project (table 1); add a shortcut if the shapes agree."""
    y = x
    if stage.expansion > 1:
        y = net.relu6(conv_norm(net, y, stage.expansion * x.shape[1]))
    y = net.relu6(conv_norm(net, y, y.shape[1], 3, stride=stride, groups=y.shape[1]))
    if stride > 1 or x.shape[1] != stage.channels:
        return conv_norm(net, y, stage.channels, gain=LINEAR_GAIN)
    return net.add(x, conv_norm(net, y, stage.channels, gain=BRANCH_GAIN))


MOBILENET_V2 = Network("mobilenet_v2", images(224), mobilenet_v2)

MOBILENET_V2_SMALL = Network(
    "mobilenet_v2_small",
    images(32),
    partial(
        mobilenet_v2,
        stages=(Stage(1, 8, 1, 1), Stage(6, 10, 2, 2), Stage(6, 16, 1, 1)),
        first=12,
        last=40,
    ),
)
