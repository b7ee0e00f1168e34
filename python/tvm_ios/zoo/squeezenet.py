# SPDX-License-Identifier: Apache-2.0
"""SqueezeNet v1.0 without bypass (Iandola et al., arXiv 1602.07360, table 1)."""

from __future__ import annotations

from .builder import Builder
from .network import Network, images
from .values import Handle, Value


def squeezenet(net: Builder[Handle], image: Value[Handle]) -> Value[Handle]:
    """Describe SqueezeNet; the smallest image is 29 x 29.

    The paper's map sizes require a padded first convolution. With half its kernel as padding, a 224
    x 224 image gives 112 columns where the table has 111; all later maps agree.
    """
    x = net.relu(net.conv(image, 96, 7, stride=2, padding=3))
    x = net.max_pool(x, 3, stride=2)
    for squeeze in (16, 16, 32):
        x = _fire(net, x, squeeze)
    x = net.max_pool(x, 3, stride=2)
    for squeeze in (32, 48, 48, 64):
        x = _fire(net, x, squeeze)
    x = net.max_pool(x, 3, stride=2)
    x = _fire(net, x, 64)
    x = net.relu(net.conv(x, 1000, 1))
    return net.flatten(net.global_avg_pool(x))


def _fire(net: Builder[Handle], x: Value[Handle], squeeze: int) -> Value[Handle]:
    """Squeeze the channels, then expand them eightfold: half by 1 x 1 and half by 3 x 3 filters."""
    squeezed = net.relu(net.conv(x, squeeze, 1))
    expand1x1 = net.relu(net.conv(squeezed, 4 * squeeze, 1))
    expand3x3 = net.relu(net.conv(squeezed, 4 * squeeze, 3, padding=1))
    return net.concat([expand1x1, expand3x3])


SQUEEZENET = Network("squeezenet", images(224), squeezenet)
