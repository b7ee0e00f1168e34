# SPDX-License-Identifier: Apache-2.0
"""Two layers of bidirectional LSTM cells (Graves and Schmidhuber, 2005), unrolled step by step."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from .builder import Builder
from .network import Input, Inputs, Network
from .values import Handle, Value

LAYERS = 2


def bilstm(net: Builder[Handle], x: Value[Handle], *, hidden: int) -> Value[Handle]:
    """Describe the network.

    Parameters
    ----------
    net : Builder
        The builder.
    x : Value
        The sequence, [N, length, features].
    hidden : int
        Units of each direction.

    Returns
    -------
    Value
        The states of both directions in each step, [N, length, 2 * hidden].
    """
    batch, length, features = x.shape
    steps = [net.reshape(net.channels(x, t, t + 1), (batch, features)) for t in range(length)]
    for _ in range(LAYERS):
        forward = _direction(net, steps, hidden)
        backward = _direction(net, steps[::-1], hidden)[::-1]
        steps = [net.concat(both) for both in zip(forward, backward, strict=True)]
    return net.concat([net.reshape(step, (batch, 1, 2 * hidden)) for step in steps])


def _direction(
    net: Builder[Handle], steps: Iterable[Value[Handle]], hidden: int
) -> list[Value[Handle]]:
    """Emit the state after each step; the first one is zero."""
    states: list[Value[Handle]] = []
    read, recurrent = None, net.weight(hidden, 4 * hidden)
    cell: Value[Handle] | None = None
    for x in steps:
        if read is None:
            read = net.weight(x.shape[-1], 4 * hidden)
        gates = net.matmul(x, read)
        if states:
            gates = net.add(gates, net.matmul(states[-1], recurrent))
        enter, keep, new, show = (
            net.channels(gates, gate * hidden, (gate + 1) * hidden) for gate in range(4)
        )
        entering = net.multiply(net.sigmoid(enter), net.tanh(new))
        kept = None if cell is None else net.multiply(net.sigmoid(keep), cell)
        cell = entering if kept is None else net.add(kept, entering)
        states.append(net.multiply(net.sigmoid(show), net.tanh(cell)))
    return states


def _sequence(batch: int, length: int, *, features: int) -> tuple[Input, ...]:
    return (Input("sequence", (batch, length, features)),)


BILSTM = Network(
    "bilstm", Inputs("length", 8, partial(_sequence, features=128)), partial(bilstm, hidden=256)
)
BILSTM_SMALL = Network(
    "bilstm_small", Inputs("length", 3, partial(_sequence, features=12)), partial(bilstm, hidden=20)
)
