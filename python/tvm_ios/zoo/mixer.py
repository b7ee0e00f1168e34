# SPDX-License-Identifier: Apache-2.0
"""MLP-Mixer (Tolstikhin et al., arXiv 2105.01601, figure 1)."""

from __future__ import annotations

from functools import partial

from .builder import Builder
from .network import Network, images
from .units import CLASSES
from .values import Handle, Value

EPSILON = 1e-6
SWAPPED = (0, 2, 1)


def mixer(
    net: Builder[Handle],
    image: Value[Handle],
    *,
    patch: int = 16,
    hidden: int,
    layers: int,
    tokens: int,
    channels: int,
) -> Value[Handle]:
    """Describe an MLP-Mixer.

    Parameters
    ----------
    net : Builder
        The builder.
    image : Value
        The input, of shape (batch, 3, height, width).
    patch : int
        Height and width of a patch.
    hidden, layers, tokens, channels : int
        The paper's C, number of layers, D_S and D_C.

    Returns
    -------
    Value
        The logits, of shape (batch, 1000).
    """
    x = net.conv(image, hidden, patch, stride=patch)
    batch, _, height, width = x.shape
    x = net.transpose(net.reshape(x, (batch, hidden, height * width)), SWAPPED)
    for _ in range(layers):
        y = net.transpose(net.layer_norm(x, epsilon=EPSILON), SWAPPED)
        x = net.add(x, net.transpose(_perceptron(net, y, tokens), SWAPPED))
        x = net.add(x, _perceptron(net, net.layer_norm(x, epsilon=EPSILON), channels))
    x = net.layer_norm(x, epsilon=EPSILON)
    x = net.reshape(net.transpose(x, SWAPPED), (batch, hidden, height, width))
    return net.dense(net.flatten(net.global_avg_pool(x)), CLASSES)


def _perceptron(net: Builder[Handle], x: Value[Handle], features: int) -> Value[Handle]:
    return net.dense(net.gelu(net.dense(x, features)), x.shape[-1])


MIXER_B16 = Network(
    "mixer_b16",
    images(224),
    partial(mixer, hidden=768, layers=12, tokens=384, channels=3072),
)

MIXER_B16_SMALL = Network(
    "mixer_b16_small", images(48), partial(mixer, hidden=40, layers=2, tokens=20, channels=72)
)
