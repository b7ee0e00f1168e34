# SPDX-License-Identifier: Apache-2.0
"""Inception-v3 without its auxiliary head (Szegedy et al., arXiv 1512.00567, section 6).

The paper does not specify the letters of the blocks, some channels, the average pools that count
padding and the epsilon of the batch norms. They are those of the reference implementations.
"""

from __future__ import annotations

from functools import partial
from typing import Generic

from .builder import Builder
from .network import Network, images
from .units import classify, conv_norm
from .values import Handle, Pair, Value

POOL_FEATURES = (32, 64, 64)
FACTORIZED_CHANNELS = (128, 160, 160, 192)
EPSILON = 1e-3


def inception_v3(
    net: Builder[Handle],
    image: Value[Handle],
    *,
    width: float = 1.0,
    blocks: tuple[int, int, int] = (3, 4, 2),
) -> Value[Handle]:
    """Describe Inception-v3; the smallest image is 75 x 75.

    Parameters
    ----------
    net : Builder
        The builder.
    image : Value
        The input, of shape (batch, 3, height, width).
    width : float
        Factor on the channels of every convolution.
    blocks : tuple of int
        The number of blocks A (at most 3), C (at most 4) and E.

    Returns
    -------
    Value
        The logits, of shape (batch, 1000).
    """
    num_a, num_c, num_e = blocks
    units = _Units(net, width)
    x = _stem(units, image)
    for pool_features in POOL_FEATURES[:num_a]:
        x = _block_a(units, x, pool_features)
    x = _block_b(units, x)
    for channels in FACTORIZED_CHANNELS[:num_c]:
        x = _block_c(units, x, channels)
    x = _block_d(units, x)
    for _ in range(num_e):
        x = _block_e(units, x)
    return classify(net, x)


class _Units(Generic[Handle]):
    """The units that all blocks consist of."""

    def __init__(self, net: Builder[Handle], width: float) -> None:
        self.net = net
        self._width = width

    def __call__(
        self,
        x: Value[Handle],
        channels: int,
        kernel: int | Pair = 1,
        *,
        stride: int = 1,
        valid: bool = False,
    ) -> Value[Handle]:
        """Convolve, normalise and rectify; padded by half the kernel unless `valid`."""
        scaled = max(1, round(channels * self._width))
        padding = 0 if valid else None
        x = conv_norm(self.net, x, scaled, kernel, stride=stride, padding=padding, epsilon=EPSILON)
        return self.net.relu(x)

    def reduce(self, x: Value[Handle], channels: int) -> Value[Handle]:
        """Convolve by 3 x 3 to about half the height and width."""
        return self(x, channels, 3, stride=2, valid=True)

    def pooled(self, x: Value[Handle], channels: int) -> Value[Handle]:
        """Average over 3 x 3, then project to `channels`."""
        return self(self.net.avg_pool(x, 3, padding=1), channels)


def _stem(units: _Units[Handle], image: Value[Handle]) -> Value[Handle]:
    """Emit the stem: 299 x 299 x 3 to 35 x 35 x 192."""
    x = units.reduce(image, 32)
    x = units(x, 32, 3, valid=True)
    x = units(x, 64, 3)
    x = units.net.max_pool(x, 3, stride=2)
    x = units(x, 80)
    x = units(x, 192, 3, valid=True)
    return units.net.max_pool(x, 3, stride=2)


def _block_a(units: _Units[Handle], x: Value[Handle], pool_features: int) -> Value[Handle]:
    """Emit a block at 35 x 35 (figure 5), with a 5 x 5 branch as in the original Inception."""
    branch1x1 = units(x, 64)
    branch5x5 = units(units(x, 48), 64, 5)
    branch3x3 = units(units(units(x, 64), 96, 3), 96, 3)
    return units.net.concat([branch1x1, branch5x5, branch3x3, units.pooled(x, pool_features)])


def _block_b(units: _Units[Handle], x: Value[Handle]) -> Value[Handle]:
    """Emit the reduction from 35 x 35 to 17 x 17 (figure 10)."""
    branch3x3 = units.reduce(x, 384)
    double = units.reduce(units(units(x, 64), 96, 3), 96)
    return units.net.concat([branch3x3, double, units.net.max_pool(x, 3, stride=2)])


def _block_c(units: _Units[Handle], x: Value[Handle], channels: int) -> Value[Handle]:
    """Emit a block at 17 x 17 (figure 6); 7 x 7 filters are factorized into 1 x 7 and 7 x 1."""
    branch1x1 = units(x, 192)
    branch7x7 = units(x, channels)
    branch7x7 = units(branch7x7, channels, (1, 7))
    branch7x7 = units(branch7x7, 192, (7, 1))
    double = units(x, channels)
    double = units(double, channels, (7, 1))
    double = units(double, channels, (1, 7))
    double = units(double, channels, (7, 1))
    double = units(double, 192, (1, 7))
    return units.net.concat([branch1x1, branch7x7, double, units.pooled(x, 192)])


def _block_d(units: _Units[Handle], x: Value[Handle]) -> Value[Handle]:
    """Emit the reduction from 17 x 17 to 8 x 8."""
    branch3x3 = units.reduce(units(x, 192), 320)
    branch7x7 = units(units(units(x, 192), 192, (1, 7)), 192, (7, 1))
    branch7x7 = units.reduce(branch7x7, 192)
    return units.net.concat([branch3x3, branch7x7, units.net.max_pool(x, 3, stride=2)])


def _block_e(units: _Units[Handle], x: Value[Handle]) -> Value[Handle]:
    """Emit a block at 8 x 8 (figure 7), with filter banks that are wide rather than deep."""
    branch1x1 = units(x, 320)
    branch3x3 = units(x, 384)
    double = units(units(x, 448), 384, 3)
    wide = [units(y, 384, kernel) for y in (branch3x3, double) for kernel in ((1, 3), (3, 1))]
    return units.net.concat([branch1x1, *wide, units.pooled(x, 192)])


INCEPTION_V3 = Network("inception_v3", images(299), inception_v3)

# Small enough for tests; its 8, 12, 20 or 24 channels are not multiples of 16.
INCEPTION_V3_SMALL = Network(
    "inception_v3_small", images(75), partial(inception_v3, width=0.25, blocks=(1, 1, 1))
)
