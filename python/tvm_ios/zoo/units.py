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


def classify(net: Builder[Handle], x: Value[Handle]) -> Value[Handle]:
    """Average each channel's map and compute a score for each of 1000 classes."""
    return net.dense(net.flatten(net.global_avg_pool(x)), CLASSES)
