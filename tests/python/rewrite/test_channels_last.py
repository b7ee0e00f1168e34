# SPDX-License-Identifier: Apache-2.0
"""Networks with convolutions whose channels come last, beside what cannot be laid out otherwise."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tvm import relax

from support.networks import check_scheduled, constant, relax_module

op = relax.op


def channels_last(emit: Callable[[relax.Expr], relax.Expr], x: relax.Expr) -> relax.Expr:
    weights = constant(3, 3, int(x.ty.shape[3]), 6)
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
    return emit(op.nn.conv2d(x, weights, padding=1, **layouts))


BESIDE: dict[str, Callable[..., relax.Expr]] = {
    "a stack of one": lambda e, y: e(op.stack([y], axis=0)),
    "a stack of two": lambda e, y: e(op.stack([y, e(op.exp(y))], axis=2)),
    "a transposed convolution": lambda e, y: e(
        op.nn.conv2d_transpose(y, constant(5, 4, 3, 3), strides=2)
    ),
}


NORMS: dict[str, Callable[..., relax.Expr]] = {
    "of rows": lambda y, *weights: op.nn.layer_norm(y, *weights, axes=[-2, -1]),
    "of channels": lambda y, *weights: op.nn.layer_norm(y, *weights, axes=[-1]),
    "of squares": lambda y, scale, _: op.nn.rms_norm(y, scale, axes=[-2, -1]),
}


@pytest.mark.parametrize("norm", NORMS)
def test_normalisations(norm: str) -> None:
    """Weights of several axes lie in the order of these, whatever the layout."""
    shape = (6,) if norm == "of channels" else (7, 6)

    def body(emit, x):
        y = channels_last(emit, x)
        return emit(NORMS[norm](y, constant(*shape, seed=1), constant(*shape, seed=2)))

    check_scheduled(relax_module(body, (2, 5, 7, 4)))


@pytest.mark.parametrize("beside", BESIDE)
def test_what_cannot_go_along(beside: str) -> None:
    def body(emit, x):
        y = channels_last(emit, x)
        return relax.Tuple([emit(op.nn.relu(y)), BESIDE[beside](emit, y)])

    check_scheduled(relax_module(body, (2, 5, 7, 4)))
