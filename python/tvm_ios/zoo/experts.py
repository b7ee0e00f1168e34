# SPDX-License-Identifier: Apache-2.0
"""Multi-gate mixture of experts (Ma et al., KDD 2018).

Each task weights the same experts by a gate of its own.
"""

from __future__ import annotations

from .builder import Builder
from .network import Input, Inputs, Network
from .units import dense_relu
from .values import Handle, Value

EXPERTS, TASKS = 8, 3
HIDDEN, FEATURES, TOWER = 256, 128, 64


def experts(net: Builder[Handle], x: Value[Handle]) -> Value[Handle]:
    """Describe the network.

    Parameters
    ----------
    net : Builder
        The builder.
    x : Value
        The features, [N, features].

    Returns
    -------
    Value
        The score of each task, [N, tasks].
    """
    batch = x.shape[0]
    answers = [dense_relu(net, dense_relu(net, x, HIDDEN), FEATURES) for _ in range(EXPERTS)]
    stacked = net.concat([net.reshape(answer, (batch, 1, FEATURES)) for answer in answers])
    scores = []
    for _ in range(TASKS):
        gate = net.reshape(net.softmax(net.dense(x, EXPERTS)), (batch, 1, EXPERTS))
        mixed = net.reshape(net.matmul(gate, stacked), (batch, FEATURES))
        scores.append(net.sigmoid(net.dense(dense_relu(net, mixed, TOWER), 1)))
    return net.concat(scores)


def _features(batch: int, length: int) -> tuple[Input, ...]:
    return (Input("features", (batch, length)),)


EXPERTS_8 = Network("experts", Inputs("length", 512, _features), experts)
EXPERTS_SMALL = Network("experts_small", Inputs("length", 24, _features), experts)
