# SPDX-License-Identifier: Apache-2.0
"""Relational graph convolutions (Schlichtkrull et al., arXiv 1703.06103) of few kinds of edges."""

from __future__ import annotations

from functools import partial, reduce

from .builder import Builder
from .network import Input, Inputs, Network
from .values import Handle, Value

KINDS, LAYERS = 4, 3


def rgcn(net: Builder[Handle], nodes: Value[Handle], *edges: Value[Handle]) -> Value[Handle]:
    """Describe the network.

    Parameters
    ----------
    net : Builder
        The builder.
    nodes : Value
        The features of the nodes, [N, nodes, features].
    edges : Value
        For each kind of edge, how much each node hears of each other one, [N, nodes, nodes].

    Returns
    -------
    Value
        The features after the last layer, [N, nodes, features].
    """
    x = nodes
    for _ in range(LAYERS):
        heard = [_heard(net, x, edge) for edge in edges]
        own = net.dense(x, x.shape[-1])
        x = net.relu(net.scale(reduce(net.add, [own, *heard]), (1 + len(edges)) ** -0.5))
    return x


def _heard(net: Builder[Handle], x: Value[Handle], edge: Value[Handle]) -> Value[Handle]:
    """Emit what nodes hear along one kind of edges, whose numbers are of order one."""
    nodes, features = x.shape[1:]
    sums = net.scale(net.matmul(edge, x), nodes**-0.5)
    return net.matmul(sums, net.weight(features, features))


def _graph(batch: int, length: int, *, features: int) -> tuple[Input, ...]:
    edges = (Input(f"edges{kind}", (batch, length, length)) for kind in range(KINDS))
    return (Input("nodes", (batch, length, features)), *edges)


RGCN = Network("rgcn", Inputs("length", 64, partial(_graph, features=64)), rgcn)
RGCN_SMALL = Network("rgcn_small", Inputs("length", 7, partial(_graph, features=12)), rgcn)
