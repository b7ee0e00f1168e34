# SPDX-License-Identifier: Apache-2.0
"""Two layers of bidirectional LSTMs (Graves and Schmidhuber, 2005)."""

from __future__ import annotations

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
    for _ in range(LAYERS):
        x = net.bidirectional_lstm(x, hidden)
    return x


def _sequence(batch: int, length: int, *, features: int) -> tuple[Input, ...]:
    return (Input("sequence", (batch, length, features)),)


BILSTM = Network(
    "bilstm", Inputs("length", 32, partial(_sequence, features=128)), partial(bilstm, hidden=256)
)
BILSTM_SMALL = Network(
    "bilstm_small", Inputs("length", 3, partial(_sequence, features=12)), partial(bilstm, hidden=20)
)
