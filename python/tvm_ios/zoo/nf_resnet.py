# SPDX-License-Identifier: Apache-2.0
"""Residual networks without normalisation (Brock et al., arXiv 2101.08692, section 4).

Scaled weight standardisation leaves a convolution with a bias at inference.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from .builder import Builder
from .network import Network, images
from .units import classify
from .values import Handle, Value

ALPHA = 0.2
# ReLU keeps the variance of its result at one with this factor.
RELU_GAIN = 1.7139588594436646
# Weights are drawn for an input after a ReLU; this factor undoes it.
WEIGHT_GAIN = 0.5**0.5


def nf_resnet(
    net: Builder[Handle], image: Value[Handle], *, stages: Sequence[int], width: int = 64
) -> Value[Handle]:
    """Describe a normaliser-free residual network.

    Parameters
    ----------
    net : Builder
        The builder.
    image : Value
        The input, of shape (batch, 3, height, width).
    stages : sequence of int
        Blocks for each map size; each size is half the one before.
    width : int
        Channels of the first convolution, and a quarter of the first stage's.

    Returns
    -------
    Value
        The logits, of shape (batch, 1000).
    """
    x = net.conv(image, width, 7, stride=2, padding=3)
    x = net.max_pool(x, 3, stride=2, padding=1)
    for stage, blocks in enumerate(stages):
        variance = 1.0  # a block's input has that of the blocks before it, and one for the first
        for i in range(blocks):
            stride = 2 if stage and not i else 1
            x = _block(net, x, width << stage, stride, variance**-0.5, projects=not i)
            variance = (1.0 if not i else variance) + ALPHA**2
    return classify(net, _activate(net, x))


def _block(
    net: Builder[Handle],
    x: Value[Handle],
    width: int,
    stride: int,
    beta: float,
    *,
    projects: bool,
) -> Value[Handle]:
    """Emit an activation and a bottleneck, whose result is scaled and added to the input."""
    y = _activate(net, x, beta)
    shortcut = x
    if projects:
        shortcut = net.conv(_halved(net, y) if stride > 1 else y, 4 * width, 1)
    y = _activate(net, net.conv(y, width, 1))
    y = _activate(net, net.conv(y, width, 3, stride=stride, padding=1))
    y = net.conv(y, 4 * width, 1)
    return net.add(net.scale(y, ALPHA), shortcut)


def _halved(net: Builder[Handle], x: Value[Handle]) -> Value[Handle]:
    """Emit the mean of two by two pixels, of less at the end of an odd map."""
    height, width = x.shape[2:]
    padding = (0, 0, height % 2, width % 2)
    return net.avg_pool(x, 2, stride=2, padding=padding, count_padding=False)


def _activate(net: Builder[Handle], x: Value[Handle], beta: float = 1.0) -> Value[Handle]:
    return net.scale(net.relu(x), RELU_GAIN * WEIGHT_GAIN * beta)


NF_RESNET50 = Network("nf_resnet50", images(224), partial(nf_resnet, stages=(3, 4, 6, 3)))

NF_RESNET50_SMALL = Network(
    "nf_resnet50_small", images(32), partial(nf_resnet, stages=(2, 2), width=12)
)
