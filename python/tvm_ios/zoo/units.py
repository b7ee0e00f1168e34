# SPDX-License-Identifier: Apache-2.0
"""The units that the convolutional networks of the zoo share."""

from __future__ import annotations

from .builder import Builder
from .values import Handle, Padding, Pair, Value

CLASSES = 1000
EPSILON = 1e-5


def conv_norm(
    net: Builder[Handle],
    x: Value[Handle],
    channels: int,
    kernel: int | Pair = 1,
    *,
    stride: int = 1,
    padding: Padding | None = None,
    groups: int = 1,
    epsilon: float = EPSILON,
    gain: float = 1.0,
) -> Value[Handle]:
    """Convolve and normalise.

    Parameters
    ----------
    net : Builder
        The builder.
    x : Value
        The input, [N, C, H, W].
    channels : int
        Output channels.
    kernel : int or pair of int
        Height and width of the window.
    stride, padding, groups
        As in :meth:`Builder.conv`; by default the padding is half the kernel.
    epsilon, gain : float
        As in :meth:`Builder.batch_norm`.
    """
    if padding is None:
        height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
        padding = (height // 2, width // 2)
    x = net.conv(x, channels, kernel, stride=stride, padding=padding, groups=groups, bias=False)
    return net.batch_norm(x, epsilon=epsilon, gain=gain)


def separable_conv(
    net: Builder[Handle],
    x: Value[Handle],
    channels: int,
    kernel: int,
    *,
    stride: int = 1,
    padding: Padding | None = None,
    epsilon: float = EPSILON,
    gain: float = 1.0,
) -> Value[Handle]:
    """Convolve depthwise, then by 1 x 1, then normalise.

    Weights are drawn for an input after a ReLU. The 1 x 1 convolution has no ReLU before it, which
    the gain of the norm compensates.

    Parameters
    ----------
    net : Builder
        The builder.
    x : Value
        The input, [N, C, H, W].
    channels : int
        Output channels.
    kernel : int
        Height and width of the window.
    stride, padding
        As in :meth:`Builder.conv`; by default the padding is half the kernel.
    epsilon, gain : float
        As in :meth:`Builder.batch_norm`.
    """
    padding = kernel // 2 if padding is None else padding
    own = x.shape[1]
    x = net.conv(x, own, kernel, stride=stride, padding=padding, groups=own, bias=False)
    return conv_norm(net, x, channels, epsilon=epsilon, gain=gain * 0.5**0.5)


def halved(
    net: Builder[Handle],
    x: Value[Handle],
    channels: int,
    *,
    epsilon: float = EPSILON,
    gain: float = 1.0,
) -> Value[Handle]:
    """Halve height and width by two convolutions, of every other pixel each, and normalise.

    Parameters
    ----------
    net : Builder
        The builder.
    x : Value
        The input, [N, C, H, W].
    channels : int
        Output channels, an even number.
    epsilon, gain : float
        As in :meth:`Builder.batch_norm`.
    """
    height, width = x.shape[2:]
    even = net.conv(x, channels // 2, 1, stride=2, bias=False)
    padding = (0, 0, height % 2, width % 2)
    odd = net.conv(net.odd_pixels(x), channels // 2, 1, padding=padding, bias=False)
    return net.batch_norm(net.concat([even, odd]), epsilon=epsilon, gain=gain)


def relu_conv_norm(
    net: Builder[Handle], x: Value[Handle], channels: int, *, gain: float = 1.0
) -> Value[Handle]:
    """Replace negative elements by zero, convolve by 1 x 1 and normalise."""
    return conv_norm(net, net.relu(x), channels, gain=gain)


def dense_relu(net: Builder[Handle], x: Value[Handle], features: int) -> Value[Handle]:
    """Compute a layer of a multilayer perceptron."""
    return net.relu(net.dense(x, features))


def classify(net: Builder[Handle], x: Value[Handle]) -> Value[Handle]:
    """Average each channel's map and compute a score for each of 1000 classes."""
    return net.dense(net.flatten(net.global_avg_pool(x)), CLASSES)
