# SPDX-License-Identifier: Apache-2.0
"""Wide and deep learning (Cheng et al., arXiv 1606.07792).

The deep part is a network of embedded features, one for each of several fields; the wide part is
linear in features that are given.
"""

from __future__ import annotations

from .builder import Builder
from .network import Input, Inputs, Network
from .units import dense_relu
from .values import Handle, Value

ROWS, FEATURES, WIDE = 1000, 32, 256
DEEP = (1024, 512, 256)


def wide_and_deep(net: Builder[Handle], wide: Value[Handle], ids: Value[Handle]) -> Value[Handle]:
    """Describe the network.

    Parameters
    ----------
    net : Builder
        The builder.
    wide : Value
        The features of the linear part, [N, 256].
    ids : Value
        The row of each field in its table, [N, fields].

    Returns
    -------
    Value
        The logit of an installation, [N, 1].
    """
    fields = [net.channels(ids, f, f + 1) for f in range(ids.shape[1])]
    vectors = [net.flatten(net.embedding(field, ROWS, FEATURES)) for field in fields]
    x = net.concat(vectors)
    for features in DEEP:
        x = dense_relu(net, x, features)
    return net.add(net.dense(x, 1), net.dense(wide, 1))


def _features(batch: int, length: int) -> tuple[Input, ...]:
    return (Input("wide", (batch, WIDE)), Input("ids", (batch, length), "int32"))


WIDE_AND_DEEP = Network("wide_and_deep", Inputs("length", 12, _features), wide_and_deep)
WIDE_AND_DEEP_SMALL = Network("wide_and_deep_small", Inputs("length", 2, _features), wide_and_deep)
