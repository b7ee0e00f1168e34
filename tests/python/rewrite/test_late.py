# SPDX-License-Identifier: Apache-2.0
"""Elementwise operations that are bound early are computed where they are read."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tvm import relax

from support.networks import check_scheduled, constant, conv, relax_module
from tvm_ios.graph.extract import extract
from tvm_ios.rewrite.prepare import prepare

op = relax.op


def gates_first(emit, x):
    """A step of an LSTM whose gates are bound before all else, the last one first."""
    parts = emit(op.split(x, 4, axis=1))
    enter, keep, new, show = (emit(relax.TupleGetItem(parts, i)) for i in range(4))
    show = emit(op.sigmoid(show))
    keep, enter, new = emit(op.sigmoid(keep)), emit(op.sigmoid(enter)), emit(op.tanh(new))
    kept = emit(op.multiply(keep, constant(3, 2)))
    cell = emit(op.add(emit(op.multiply(enter, new)), kept))
    return relax.Tuple([cell, emit(op.multiply(show, emit(op.tanh(cell))))])


def two_convolutions(emit, x):
    """Each has an operation of its own, and the second one the sum."""
    first = emit(op.nn.relu(emit(conv(x, 8, seed=1))))
    second = emit(op.nn.relu(emit(conv(x, 8, seed=2))))
    return emit(op.add(first, second))


def scaled_input(emit, x):
    """What is added to a convolution is computed in its epilogue, also if it is bound first."""
    scaled = emit(op.multiply(x, relax.const(0.3)))
    return emit(op.add(emit(conv(x, 8)), scaled))


def computed_factors(emit, x):
    """Factors of channels are there before the convolution whose epilogue they are in."""
    means = emit(op.mean(x, axis=[2, 3], keepdims=True))
    factors = emit(op.multiply(means, emit(op.exp(means))))
    return emit(op.multiply(emit(conv(x, 8)), factors))


def read_twice(emit, x):
    """A value that two operations read stays where it is."""
    early = emit(op.exp(x))
    other = emit(conv(x, 8))
    return relax.Tuple([emit(op.add(early, other)), emit(op.multiply(early, early))])


IMAGE = (1, 8, 5, 6)
CASES: dict[str, tuple[Callable[..., relax.Expr], tuple[int, ...], list[tuple[str, int]]]] = {
    "gates first": (gates_first, (3, 8), [("split", 0), ("elementwise", 9)]),
    "two convolutions": (two_convolutions, IMAGE, [("conv2d", 1), ("conv2d", 2)]),
    "scaled input": (scaled_input, IMAGE, [("conv2d", 2)]),
    "computed factors": (
        computed_factors,
        IMAGE,
        [("mean", 2), ("conv2d", 1)],
    ),
    "read twice": (read_twice, IMAGE, [("elementwise", 1), ("conv2d", 1), ("elementwise", 1)]),
}


@pytest.mark.parametrize(("body", "shape", "expected"), CASES.values(), ids=CASES)
def test_operators_and_their_steps(
    body: Callable[..., relax.Expr], shape: tuple[int, ...], expected: list[tuple[str, int]]
) -> None:
    mod = relax_module(body, shape)
    graph = extract(prepare(mod))
    found = [(o.kind, len(o.epilogue.steps)) for o in graph.operators if not o.opaque]
    assert found == expected
    check_scheduled(mod)
