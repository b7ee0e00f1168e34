# SPDX-License-Identifier: Apache-2.0
"""RandWire: randomly wired networks (Xie et al., arXiv 1904.01569, section 3 and table 1).

The wiring is fixed for each network of the zoo; the seed of the weights does not change it. The
regular regime has the paper's two widths, of which IOS measured the larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

from .builder import Builder
from .network import Network, images
from .units import classify, conv_norm, separable_conv
from .values import Handle, Value
from .wiring import Wiring, watts_strogatz

NEIGHBORS, REWIRING = 4, 0.75  # the paper's best generator, WS(4, 0.75)
FIRST_SEED = 5  # gives wirings with about the paper's average number of parameters
FEATURES = 1280


def randwire(
    net: Builder[Handle],
    image: Value[Handle],
    *,
    channels: int,
    stages: Sequence[int],
    widen_first: bool,
    features: int = FEATURES,
) -> Value[Handle]:
    """Describe a randomly wired network.

    Parameters
    ----------
    net : Builder
        The builder.
    image : Value
        The input, of shape (batch, 3, height, width).
    channels : int
        The paper's C: channels of the first random stage; each later stage has twice as many.
    stages : sequence of int
        Nodes of each random stage.
    widen_first : bool
        Whether a second convolution precedes the random stages, as in the small regime.
    features : int
        Channels of the last convolution.

    Returns
    -------
    Value
        The logits, of shape (batch, 1000).
    """
    x = conv_norm(net, image, channels // 2, 3, stride=2)
    if widen_first:
        x = conv_norm(net, net.relu(x), channels, 3, stride=2)
    averaged = 1
    for i, nodes in enumerate(stages):
        wiring = watts_strogatz(nodes, NEIGHBORS, REWIRING, seed=FIRST_SEED + i)
        x = random_stage(net, x, wiring, channels << i, gain=averaged**0.5)
        averaged = len(wiring.sinks)
    return classify(net, conv_norm(net, net.relu(x), features, gain=averaged**0.5))


def random_stage(
    net: Builder[Handle], x: Value[Handle], wiring: Wiring, channels: int, gain: float
) -> Value[Handle]:
    """Halve the map in the nodes that read the stage's input; average the nodes that none reads.

    The average of n tensors is smaller than each by about √n, which the next stage's `gain`
    corrects.
    """
    values: list[Value[Handle]] = []
    x = net.relu(x)
    for sources in wiring.sources:
        if sources:
            y = net.relu(net.weighted_sum([values[u] for u in sources]))
            values.append(separable_conv(net, y, channels, 3))
        else:
            values.append(separable_conv(net, x, channels, 3, stride=2, gain=gain))
    sinks = [values[v] for v in wiring.sinks]
    return net.scale(reduce(net.add, sinks), 1 / len(sinks))


def _network(
    name: str,
    size: int,
    channels: int,
    stages: tuple[int, ...],
    *,
    widen_first: bool = False,
    features: int = FEATURES,
) -> Network:
    describe = partial(
        randwire, channels=channels, stages=stages, widen_first=widen_first, features=features
    )
    return Network(name, images(size), describe)


RANDWIRE_SMALL = _network("randwire_small", 224, 78, (32, 32, 32), widen_first=True)
RANDWIRE_REGULAR = _network("randwire_regular", 224, 109, (16, 32, 32, 32))
RANDWIRE_LARGE = _network("randwire_large", 224, 154, (16, 32, 32, 32))

# Small enough for tests.
RANDWIRE_TINY = _network("randwire_tiny", 32, 12, (6, 8), features=24)
