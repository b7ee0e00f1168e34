# SPDX-License-Identifier: Apache-2.0
"""NASNet-A without its auxiliary head (Zoph et al., arXiv 1707.07012, figures 2 and 4).

Where the paper is silent, this follows its authors' implementation: the stem, the padding, how the
cell before the last is resized, and which cell that is after a reduction. Separable convolutions
are applied twice. The ReLU of one tensor, and a pool that a cell adds to itself, are emitted once.
"""

from __future__ import annotations

from functools import partial

from .builder import Builder
from .network import Network, images
from .units import classify, conv_norm, halved, separable_conv
from .values import Handle, Value

EPSILON = 1e-3
PROJECTION_GAIN = 0.7  # compensates for the sums of two that form most of a cell's result


def nasnet_a(
    net: Builder[Handle],
    image: Value[Handle],
    *,
    cells: int,
    filters: int,
    stem: int,
    skip_reduction: bool,
    stages: int = 3,
) -> Value[Handle]:
    """Describe NASNet-A; the paper's N @ P has `cells` N and `filters` P / 24.

    Parameters
    ----------
    net : Builder
        The builder.
    image : Value
        The input, of shape (batch, 3, height, width).
    cells : int
        Normal cells of each stage.
    filters : int
        Width of the first stage's cells; each stage is twice as wide as the one before.
    stem : int
        Channels of the first convolution.
    skip_reduction : bool
        Whether the first normal cell after a reduction takes the reduction's second-to-last input
        as its own second-to-last input, instead of the reduction's last input.
    stages : int
        Stages of normal cells, with a reduction between any two.

    Returns
    -------
    Value
        The logits, of shape (batch, 1000).
    """
    first = conv_norm(net, image, stem, 3, stride=2, padding=0, epsilon=EPSILON)
    # Every result of a cell is read through a ReLU.
    previous = net.relu(first)
    x = _stem_cell(net, previous, filters // 4)
    previous, x = x, _reduction_cell(net, previous, x, filters // 2)
    for stage in range(stages):
        width = filters << stage
        if stage:
            reduced = _reduction_cell(net, previous, x, width)
            previous, x = (previous if skip_reduction else x), reduced
        for _ in range(cells):
            previous, x = x, normal_cell(net, previous, x, width)
    return classify(net, x)


def normal_cell(
    net: Builder[Handle], previous: Value[Handle], x: Value[Handle], width: int
) -> Value[Handle]:
    """Emit a normal cell (figure 4, left), from the rectified results of the two cells before."""
    left, right = _fit(net, previous, x, width), _project(net, x, width)
    active_left, active_right = net.relu(left), net.relu(right)
    pooled = _average(net, left)
    sums = [
        net.add(_separable(net, active_right, width, 5), _separable(net, active_left, width, 3)),
        net.add(_separable(net, active_left, width, 5), _separable(net, active_left, width, 3)),
        net.add(_average(net, right), left),
        net.add(pooled, pooled),
        net.add(_separable(net, active_right, width, 3), right),
    ]
    return net.relu(net.concat([left, *sums]))


def _reduction_cell(
    net: Builder[Handle], previous: Value[Handle], x: Value[Handle], width: int
) -> Value[Handle]:
    """Emit a reduction cell (figure 4, right), which halves the height and the width."""
    active_left = net.relu(_fit(net, previous, x, width))
    return _reduce(net, active_left, _project(net, x, width), width)


def _stem_cell(net: Builder[Handle], x: Value[Handle], width: int) -> Value[Handle]:
    """Emit the first reduction cell, which has only one cell before it."""
    return _reduce(net, x, _project(net, x, width), width)


def _reduce(
    net: Builder[Handle], active_left: Value[Handle], right: Value[Handle], width: int
) -> Value[Handle]:
    active_right = net.relu(right)
    largest = net.max_pool(right, 3, stride=2, padding=_same(right, 3, 2))
    first = net.add(
        _separable(net, active_right, width, 5, stride=2),
        _separable(net, active_left, width, 7, stride=2),
    )
    second = net.add(largest, _separable(net, active_left, width, 7, stride=2))
    third = net.add(
        _average(net, right, stride=2), _separable(net, active_left, width, 5, stride=2)
    )
    fourth = net.add(_average(net, first), second)
    fifth = net.add(_separable(net, net.relu(first), width, 3), largest)
    return net.relu(net.concat([second, third, fourth, fifth]))


def _fit(
    net: Builder[Handle], previous: Value[Handle], x: Value[Handle], width: int
) -> Value[Handle]:
    """Project the cell before the last to the channels and the size of the last one."""
    if previous.shape[2:] == x.shape[2:]:
        return _project(net, previous, width)
    return halved(net, previous, width, epsilon=EPSILON, gain=PROJECTION_GAIN)


def _project(net: Builder[Handle], x: Value[Handle], width: int) -> Value[Handle]:
    return conv_norm(net, x, width, epsilon=EPSILON, gain=PROJECTION_GAIN)


def _separable(
    net: Builder[Handle], x: Value[Handle], width: int, kernel: int, *, stride: int = 1
) -> Value[Handle]:
    """Emit a separable convolution of a rectified tensor, applied twice."""
    padding = _same(x, kernel, stride)
    x = separable_conv(net, x, width, kernel, stride=stride, padding=padding, epsilon=EPSILON)
    return separable_conv(net, net.relu(x), width, kernel, epsilon=EPSILON)


def _average(net: Builder[Handle], x: Value[Handle], *, stride: int = 1) -> Value[Handle]:
    return net.avg_pool(x, 3, stride=stride, padding=_same(x, 3, stride), count_padding=False)


def _same(x: Value[Handle], kernel: int, stride: int) -> tuple[int, int, int, int]:
    """Return the padding for maps of size / stride, rounded up; an odd pixel is added behind."""
    missing = [max(0, -size % stride - stride + kernel) for size in x.shape[2:]]
    before = [total // 2 for total in missing]
    after = [total - b for total, b in zip(missing, before, strict=True)]
    return (before[0], before[1], after[0], after[1])


NASNET_A_LARGE = Network(
    "nasnet_a_large",
    images(331),
    partial(nasnet_a, cells=6, filters=168, stem=96, skip_reduction=True),
)
NASNET_A_MOBILE = Network(
    "nasnet_a_mobile",
    images(224),
    partial(nasnet_a, cells=4, filters=44, stem=32, skip_reduction=False),
)

# Covers reductions of maps of odd and of even size, and a normal cell.
NASNET_A_SMALL = Network(
    "nasnet_a_small",
    images(31),
    partial(nasnet_a, cells=1, filters=8, stem=8, skip_reduction=True, stages=1),
)
