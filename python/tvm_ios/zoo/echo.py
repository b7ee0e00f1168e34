# SPDX-License-Identifier: Apache-2.0
"""A network that removes an echo: it reads a microphone's signal and the loudspeaker's.

Encoders of strided convolutions, residual blocks of growing dilation and a mask, as in Conv-TasNet
(Luo and Mesgarani, arXiv 1809.07454), with an encoder for each signal. A signal is an image of one
row.
"""

from __future__ import annotations

from functools import partial

from .builder import Builder
from .network import Input, Inputs, Network
from .values import Handle, Value


def echo(
    net: Builder[Handle],
    microphone: Value[Handle],
    loudspeaker: Value[Handle],
    *,
    channels: int,
    blocks: int,
) -> Value[Handle]:
    """Describe the network.

    Parameters
    ----------
    net : Builder
        The builder.
    microphone, loudspeaker : Value
        The signals, [N, 1, 1, length].
    channels : int
        Channels of each encoder.
    blocks : int
        Residual blocks.

    Returns
    -------
    Value
        What the microphone's encoder found, without the echo, [N, channels, 1, length / 8].
    """
    near, far = (_encoded(net, signal, channels) for signal in (microphone, loudspeaker))
    x = net.conv(net.concat([near, far]), channels, 1)
    for block in range(blocks):
        x = net.add(x, _residual(net, x, 1 << block))
    return net.multiply(near, net.sigmoid(net.conv(x, channels, 1)))


def _encoded(net: Builder[Handle], x: Value[Handle], channels: int) -> Value[Handle]:
    """Emit an encoder, which divides the length by 8."""
    for width in (channels // 4, channels // 2, channels):
        x = net.relu(net.conv(x, width, (1, 4), stride=(1, 2), padding=(0, 1)))
    return x


def _residual(net: Builder[Handle], x: Value[Handle], reach: int) -> Value[Handle]:
    channels = x.shape[1]
    y = net.relu(net.conv(x, 2 * channels, 1))
    size, padding = (1, 3), (0, reach)
    y = net.conv(y, 2 * channels, size, padding=padding, dilation=(1, reach), groups=2 * channels)
    return net.rescale(net.conv(net.relu(y), channels, 1), axis=-3)


def _signals(batch: int, length: int) -> tuple[Input, ...]:
    return tuple(Input(name, (batch, 1, 1, length)) for name in ("microphone", "loudspeaker"))


ECHO = Network("echo", Inputs("length", 4096, _signals), partial(echo, channels=64, blocks=6))
ECHO_SMALL = Network(
    "echo_small", Inputs("length", 72, _signals), partial(echo, channels=12, blocks=2)
)
