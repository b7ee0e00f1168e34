# SPDX-License-Identifier: Apache-2.0
"""The heads of RetinaNet (Lin et al., arXiv 1708.02002) on five scales of features.

One head says what is where, the other one its exact place. Each has the same weights on all scales.
"""

from __future__ import annotations

from functools import partial

from .builder import Builder
from .network import Input, Inputs, Network
from .values import Handle, Value
from .weights import Filters

SCALES, ANCHORS, CLASSES, PLACES, DEPTH = 5, 3, 20, 4, 4


def heads(net: Builder[Handle], *maps: Value[Handle]) -> Value[Handle]:
    """Describe the network.

    Parameters
    ----------
    net : Builder
        The builder.
    maps : Value
        The features of each scale, [N, channels, size, size].

    Returns
    -------
    Value
        Scores and places of all anchors one after another, [N, numbers].
    """
    channels = maps[0].shape[1]
    found = []
    for numbers, scores in ((CLASSES, True), (PLACES, False)):
        hidden = [net.filters(channels, channels, (3, 3)) for _ in range(DEPTH)]
        last = net.filters(channels, ANCHORS * numbers, (3, 3))
        for x in maps:
            y = _head(net, x, [*hidden, last])
            found.append(net.flatten(net.sigmoid(y) if scores else y))
    return net.concat(found)


def _head(net: Builder[Handle], x: Value[Handle], filters: list[Filters]) -> Value[Handle]:
    for each in filters[:-1]:
        x = net.relu(net.filtered(x, each))
    return net.filtered(x, filters[-1])


def _maps(batch: int, size: int, *, channels: int) -> tuple[Input, ...]:
    sizes = [max(1, size >> scale) for scale in range(SCALES)]
    return tuple(
        Input(f"map{scale}", (batch, channels, pixels, pixels))
        for scale, pixels in enumerate(sizes)
    )


HEADS = Network("heads", Inputs("image_size", 16, partial(_maps, channels=64)), heads)
HEADS_SMALL = Network("heads_small", Inputs("image_size", 7, partial(_maps, channels=12)), heads)
