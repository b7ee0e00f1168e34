# SPDX-License-Identifier: Apache-2.0
"""The recurrent cell that architecture search found (Zoph and Le, arXiv 1611.01578, figure 8).

This is the form in which graph schedulers are compared (TASO, SOSP 2019): unrolled, and without the
memory that the paper's cell has beside its state.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from .builder import Builder
from .network import Input, Inputs, Network
from .values import Handle, Value

LEAVES = 8


def nasrnn(net: Builder[Handle], state: Value[Handle], *steps: Value[Handle]) -> Value[Handle]:
    """Describe the unrolled network; all steps have the same weights.

    Parameters
    ----------
    net : Builder
        The builder.
    state : Value
        The initial state, of shape (batch, hidden).
    steps : Value
        The input of each step, of shape (batch, hidden).

    Returns
    -------
    Value
        The state after the last step.
    """
    hidden = state.shape[1]
    leaves = [(net.weight(hidden, hidden), net.weight(hidden, hidden)) for _ in range(LEAVES)]
    for x in steps:
        state = _cell(net, [net.add(net.matmul(x, w), net.matmul(state, u)) for w, u in leaves])
    return state


def _cell(net: Builder[Handle], t: Sequence[Value[Handle]]) -> Value[Handle]:
    """Emit the tree of figure 8, from its leaves to the new state."""
    relu, sigmoid, tanh = net.relu, net.sigmoid, net.tanh
    first = net.add(relu(t[0]), sigmoid(t[3]))
    second = net.add(sigmoid(t[1]), tanh(t[2]))
    third = net.multiply(sigmoid(t[4]), tanh(t[5]))
    fourth = net.multiply(sigmoid(t[6]), relu(t[7]))
    left = net.add(sigmoid(second), tanh(third))
    right = net.multiply(tanh(first), tanh(fourth))
    return tanh(net.multiply(tanh(left), tanh(right)))


def _vectors(batch: int, length: int, *, hidden: int) -> tuple[Input, ...]:
    names = ("state", *(f"x{i}" for i in range(length)))
    return tuple(Input(name, (batch, hidden)) for name in names)


NASRNN = Network("nasrnn", Inputs("length", 5, partial(_vectors, hidden=512)), nasrnn)
NASRNN_SMALL = Network("nasrnn_small", Inputs("length", 2, partial(_vectors, hidden=24)), nasrnn)
