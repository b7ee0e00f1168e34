# SPDX-License-Identifier: Apache-2.0
"""A deep ensemble (Lakshminarayanan et al., arXiv 1612.01474): the mean of several small networks.

Each is a LeNet-5 (LeCun et al., 1998) of wider layers.
"""

from __future__ import annotations

from functools import partial, reduce

from .builder import Builder
from .network import Network, images
from .units import CLASSES, dense_relu
from .values import Handle, Value


def ensemble(net: Builder[Handle], x: Value[Handle], *, members: int) -> Value[Handle]:
    """Describe the network.

    Parameters
    ----------
    net : Builder
        The builder.
    x : Value
        The images, [N, 3, H, W].
    members : int
        How many networks there are.

    Returns
    -------
    Value
        The mean of the members' logits, [N, classes].
    """
    answers = [_member(net, x) for _ in range(members)]
    return net.scale(reduce(net.add, answers), 1 / members)


def _member(net: Builder[Handle], x: Value[Handle]) -> Value[Handle]:
    for channels in (16, 32):
        x = net.max_pool(net.relu(net.conv(x, channels, 5, padding=2)), 2, stride=2)
    return net.dense(dense_relu(net, net.flatten(x), 64), CLASSES)


ENSEMBLE = Network("ensemble", images(32), partial(ensemble, members=6))
ENSEMBLE_SMALL = Network("ensemble_small", images(9), partial(ensemble, members=3))
