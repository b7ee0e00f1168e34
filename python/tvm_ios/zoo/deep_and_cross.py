# SPDX-License-Identifier: Apache-2.0
"""Two towers beside a deep and cross network (Wang et al., DCN V2, arXiv 2008.13535).

The towers embed a user and an item; the cross network multiplies features of both.
"""

from __future__ import annotations

from .builder import Builder
from .network import Input, Inputs, Network
from .units import dense_relu
from .values import Handle, Value

TOWER = (512, 256, 128)
DEEP = (512, 256)
CROSSES = 3


def deep_and_cross(net: Builder[Handle], user: Value[Handle], item: Value[Handle]) -> Value[Handle]:
    """Describe the network.

    Parameters
    ----------
    net : Builder
        The builder.
    user, item : Value
        Their features, [N, features].

    Returns
    -------
    Value
        The probability that they go together, [N, 1].
    """
    towers = [_tower(net, x) for x in (user, item)]
    x = net.concat([user, item])
    crossed = x
    for _ in range(CROSSES):
        crossed = net.add(net.multiply(x, net.dense(crossed, x.shape[1])), crossed)
    deep = x
    for features in DEEP:
        deep = dense_relu(net, deep, features)
    return net.sigmoid(net.dense(net.concat([net.multiply(*towers), crossed, deep]), 1))


def _tower(net: Builder[Handle], x: Value[Handle]) -> Value[Handle]:
    *hidden, last = TOWER
    for features in hidden:
        x = dense_relu(net, x, features)
    return net.tanh(net.dense(x, last))


def _features(batch: int, length: int) -> tuple[Input, ...]:
    return (Input("user", (batch, length)), Input("item", (batch, length)))


DEEP_AND_CROSS = Network("deep_and_cross", Inputs("length", 256, _features), deep_and_cross)
DEEP_AND_CROSS_SMALL = Network(
    "deep_and_cross_small", Inputs("length", 20, _features), deep_and_cross
)
