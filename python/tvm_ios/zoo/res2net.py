# SPDX-License-Identifier: Apache-2.0
"""Res2Net (Gao et al., arXiv 1904.01169, figure 2b and table 1)."""

from __future__ import annotations

from functools import partial

from .builder import Builder
from .network import Network, images
from .resnet import BRANCH_GAIN, resnet
from .units import conv_norm
from .values import Handle, Value


def multi_scale(
    net: Builder[Handle],
    x: Value[Handle],
    width: int,
    stride: int,
    *,
    scales: int = 4,
    base: int = 26,
) -> Value[Handle]:
    """Emit a bottleneck whose middle is a hierarchy of 3 x 3 convolutions.

    Each reads a part of the channels, and the result of the one before. Where the map is halved, a
    part is read alone, and the last one is pooled.

    Parameters
    ----------
    net : Builder
        The builder.
    x : Value
        The block's input, [N, C, H, W].
    width, stride : int
        A quarter of the block's output channels, and the stride of the 3 x 3 convolutions.
    scales : int
        Parts of the channels.
    base : int
        Channels of a part, where ``width`` is 64.
    """
    first = x.shape[1] != 4 * width
    part = width * base // 64
    x = net.relu(conv_norm(net, x, part * scales))
    parts = [net.channels(x, i * part, (i + 1) * part) for i in range(scales)]
    done: list[Value[Handle]] = []
    for own in parts[:-1]:
        y = own if first or not done else net.add(done[-1], own)
        done.append(net.relu(conv_norm(net, y, part, 3, stride=stride)))
    last = net.avg_pool(parts[-1], 3, stride=stride, padding=1) if first else parts[-1]
    return conv_norm(net, net.concat([*done, last]), 4 * width, gain=BRANCH_GAIN)


RES2NET50 = Network(
    "res2net50", images(224), partial(resnet, block=multi_scale, stages=(3, 4, 6, 3))
)

RES2NET50_SMALL = Network(
    "res2net50_small",
    images(32),
    partial(resnet, block=partial(multi_scale, base=32), stages=(2, 2), width=14),
)
