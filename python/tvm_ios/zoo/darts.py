# SPDX-License-Identifier: Apache-2.0
"""DARTS (Liu et al., arXiv 1806.09055): the second-order cells for CIFAR-10, without auxiliaries.

A cell has four nodes, each the sum of two operations on the nodes before it; its first two nodes
are the results of the two cells before it. The reduced network has fewer cells and channels than
the paper's 20 and 36.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from .builder import Builder
from .network import Network, images
from .units import EPSILON, classify, conv_norm, halved, relu_conv_norm, separable_conv
from .values import Handle, Value

Node = tuple[tuple[str, int], tuple[str, int]]

NORMAL: Sequence[Node] = (
    (("separable", 0), ("separable", 1)),
    (("separable", 0), ("separable", 1)),
    (("separable", 1), ("skip", 0)),
    (("skip", 0), ("dilated", 2)),
)
REDUCTION: Sequence[Node] = (
    (("max", 0), ("max", 1)),
    (("skip", 2), ("max", 1)),
    (("max", 0), ("skip", 2)),
    (("skip", 2), ("max", 1)),
)


GAIN = 0.5  # compensates for the sums of two that a cell's result consists of


def darts(net: Builder[Handle], x: Value[Handle], *, cells: int, channels: int) -> Value[Handle]:
    """Describe the network.

    Parameters
    ----------
    net : Builder
        The builder.
    x : Value
        The images, [N, 3, H, W].
    cells : int
        Cells, of which two halve the image.
    channels : int
        Channels of the nodes of the first cells.

    Returns
    -------
    Value
        The logits, [N, classes].
    """
    stem = conv_norm(net, x, 3 * channels, 3)
    before, last = stem, stem
    reductions = (cells // 3, 2 * cells // 3)
    for cell in range(cells):
        reduces = cell in reductions
        channels *= 2 if reduces else 1
        before, last = last, _cell(net, before, last, channels, reduces)
    return classify(net, last)


def _cell(
    net: Builder[Handle], before: Value[Handle], last: Value[Handle], channels: int, reduces: bool
) -> Value[Handle]:
    """Emit a cell on the results of the two cells before it."""
    if before.shape[2:] == last.shape[2:]:
        first = relu_conv_norm(net, before, channels, gain=GAIN)
    else:
        first = halved(net, net.relu(before), channels, gain=GAIN)
    nodes = [first, relu_conv_norm(net, last, channels, gain=GAIN)]
    for pair in REDUCTION if reduces else NORMAL:
        terms = [
            _operation(net, name, nodes[source], 2 if reduces and source < 2 else 1)
            for name, source in pair
        ]
        nodes.append(net.add(*terms))
    return net.concat(nodes[2:])


def _operation(net: Builder[Handle], name: str, x: Value[Handle], stride: int) -> Value[Handle]:
    channels = x.shape[1]
    if name == "skip":
        return x if stride == 1 else halved(net, net.relu(x), channels)
    if name == "max":
        return net.batch_norm(net.max_pool(x, 3, stride=stride, padding=1), epsilon=EPSILON)
    if name == "dilated":
        window = net.conv(
            net.relu(x), channels, 3, stride=stride, padding=2, dilation=2, groups=channels,
            bias=False,
        )  # fmt: skip
        return conv_norm(net, window, channels)
    once = separable_conv(net, net.relu(x), channels, 3, stride=stride)
    return separable_conv(net, net.relu(once), channels, 3)


DARTS = Network("darts", images(32), partial(darts, cells=8, channels=16))
DARTS_SMALL = Network("darts_small", images(16), partial(darts, cells=3, channels=4))
