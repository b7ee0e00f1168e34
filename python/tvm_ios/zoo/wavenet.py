# SPDX-License-Identifier: Apache-2.0
"""WaveNet (van den Oord et al., arXiv 1609.03499): dilated causal convolutions with gates.

A signal is an image of one row.
"""

from __future__ import annotations

from functools import partial, reduce

from .builder import Builder
from .network import Input, Inputs, Network
from .values import Handle, Value

CHANNELS, SKIP, LEVELS = 32, 64, 256


def wavenet(net: Builder[Handle], signal: Value[Handle], *, layers: int) -> Value[Handle]:
    """Describe the network.

    Parameters
    ----------
    net : Builder
        The builder.
    signal : Value
        The samples, [N, 1, 1, length].
    layers : int
        Convolutions; each has twice the dilation of the one before it.

    Returns
    -------
    Value
        The scores of each level of each sample, [N, levels, 1, length].
    """
    x = net.conv(signal, CHANNELS, 1)
    skipped = []
    for layer in range(layers):
        reach = 1 << layer
        content, gate = (
            net.conv(x, CHANNELS, (1, 2), padding=(0, reach, 0, 0), dilation=(1, reach))
            for _ in range(2)
        )
        gated = net.multiply(net.tanh(content), net.sigmoid(gate))
        skipped.append(net.conv(gated, SKIP, 1))
        x = net.add(net.conv(gated, CHANNELS, 1), x)
    y = net.relu(net.scale(reduce(net.add, skipped), layers**-0.5))
    return net.conv(net.relu(net.conv(y, LEVELS, 1)), LEVELS, 1)


def _signal(batch: int, length: int) -> tuple[Input, ...]:
    return (Input("signal", (batch, 1, 1, length)),)


WAVENET = Network("wavenet", Inputs("length", 1024, _signal), partial(wavenet, layers=10))
WAVENET_SMALL = Network("wavenet_small", Inputs("length", 37, _signal), partial(wavenet, layers=3))
