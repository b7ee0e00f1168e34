# SPDX-License-Identifier: Apache-2.0
"""Deep learning recommendation model (Naumov et al., arXiv 1906.00091).

Dense features and one vector of each categorical feature are multiplied pair by pair, scaled as
random vectors need it. All pairs are kept, where the paper leaves out those that are there twice.
"""

from __future__ import annotations

from .builder import Builder
from .network import Input, Inputs, Network
from .units import dense_relu
from .values import Handle, Value

DENSE, ROWS, FEATURES = 13, 1000, 64
BOTTOM, TOP = (512, 256), (512, 256)


def dlrm(net: Builder[Handle], dense: Value[Handle], ids: Value[Handle]) -> Value[Handle]:
    """Describe the network.

    Parameters
    ----------
    net : Builder
        The builder.
    dense : Value
        The dense features, [N, 13].
    ids : Value
        The row of each categorical feature in its table, [N, features].

    Returns
    -------
    Value
        The logit of a click, [N, 1].
    """
    batch, tables = ids.shape
    x = dense
    for features in BOTTOM:
        x = dense_relu(net, x, features)
    x = dense_relu(net, x, FEATURES)
    vectors = [net.embedding(net.channels(ids, t, t + 1), ROWS, FEATURES) for t in range(tables)]
    rows = net.concat([net.reshape(x, (batch, 1, FEATURES)), *vectors])
    scaled = net.scale(rows, FEATURES**-0.5)
    pairs = net.flatten(net.matmul(scaled, net.transpose(rows, (0, 2, 1))))
    y = net.concat([x, pairs])
    for features in TOP:
        y = dense_relu(net, y, features)
    return net.dense(y, 1)


def _features(batch: int, length: int) -> tuple[Input, ...]:
    return (Input("dense", (batch, DENSE)), Input("ids", (batch, length), "int32"))


DLRM = Network("dlrm", Inputs("length", 26, _features), dlrm)
DLRM_SMALL = Network("dlrm_small", Inputs("length", 3, _features), dlrm)
