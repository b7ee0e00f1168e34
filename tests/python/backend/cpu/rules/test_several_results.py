# SPDX-License-Identifier: Apache-2.0
"""Chains of elementwise operators of which several values are read: one kernel stores them all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tvm
from onnx import helper
from tvm import relax
from tvm.relax import op

from support.networks import NATIVE, check_scheduled, constant, conv, few_stages, relax_module
from support.open_networks import assert_any_shape, save
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.graph.operators import Operator

IMAGE = (1, 20, 6, 7)


def chains(mod: tvm.IRModule) -> list[Operator]:
    """Return the operators of no anchor, after comparing their results with TVM's own."""
    check_scheduled(mod)
    graph = Scheduler.prepare(mod, NATIVE, cost_model=few_stages).stage_builder.lowered.graph
    return [o for o in graph.operators if o.kind == "elementwise"]


@pytest.mark.parametrize("shape", [(33, 45), (7,), (2, 5, 7, 9), (1, 1)])
def test_values_on_the_way_are_stored(shape: tuple[int, ...]) -> None:
    def body(emit, x, y):
        first = emit(op.add(x, y))
        second = emit(op.tanh(first))
        third = emit(op.multiply(emit(op.exp(second)), y))
        return relax.Tuple([third, first, second])

    (chain,) = chains(relax_module(body, shape, shape[-1:]))
    assert chain.epilogue.results == (1, 2, 4)


def test_a_recurrent_cell_is_one_chain() -> None:
    def body(emit, gates, cell):
        parts = emit(op.split(gates, 4, axis=1))
        i, f, g, o = (emit(relax.TupleGetItem(parts, k)) for k in range(4))
        kept = emit(op.multiply(emit(op.sigmoid(f)), cell))
        added = emit(op.multiply(emit(op.sigmoid(i)), emit(op.tanh(g))))
        after = emit(op.add(kept, added))
        hidden = emit(op.multiply(emit(op.sigmoid(o)), emit(op.tanh(after))))
        return relax.Tuple([hidden, after])

    (chain,) = chains(relax_module(body, (2, 4 * 19), (2, 19)))
    assert len(chain.outputs) == 2


@pytest.mark.parametrize("returned", [0, 1, 2])
def test_blocked_images(returned: int) -> None:
    """Values that leave the network are row-major; others stay blocked."""

    def body(emit, x):
        image = emit(conv(x, 20))
        pooled = emit(op.nn.max_pool2d(image, (3, 3), padding=1))
        first = emit(op.multiply(image, constant(1, 20, 1, 1)))
        second = emit(op.nn.relu(first))
        read = [emit(conv(first, 20, seed=1)), emit(conv(second, 20, seed=2)), pooled]
        return relax.Tuple([*read, *(first, second)[:returned]])

    (chain,) = chains(relax_module(body, IMAGE))
    assert [value.ty.shape.values[1] for value in chain.outputs] == [20, 20]


@pytest.mark.parametrize("threads", [1, 2])
def test_any_size(tmp_path: Path, threads: int) -> None:
    nodes = [
        helper.make_node("Add", ["x", "y"], ["a"]),
        helper.make_node("Tanh", ["a"], ["b"]),
        helper.make_node("Mul", ["b", "x"], ["c"]),
    ]
    path = save(tmp_path / "m.onnx", nodes, {"x": ["n", "t"], "y": ["t"]}, ["a", "c"], [])
    calls = [[(n, t), (t,)] for n in (1, 3, 70) for t in (1, 5, 16, 17, 1023)]
    assert_any_shape(path, calls, threads=threads)


def _waiting(emit: Callable[..., Any], x: relax.Expr) -> relax.Expr:
    """What follows a value has an operand that is there later."""
    first = emit(op.exp(x))
    pooled = emit(op.nn.max_pool2d(x, (3, 3), padding=1))
    following = emit(op.multiply(emit(op.tanh(first)), pooled))
    return relax.Tuple([first, following, emit(op.nn.avg_pool2d(pooled, (3, 3), padding=1))])


def _computed_where_it_is_read(emit: Callable[..., Any], x: relax.Expr) -> relax.Expr:
    """A value is read by an operation of another region alone, which computes it from the first."""
    first = emit(op.exp(x))
    second = emit(op.tanh(first))
    pooled = emit(op.nn.max_pool2d(x, (3, 3), padding=1))
    return relax.Tuple([first, emit(op.multiply(pooled, second))])


def _of_an_anchor(emit: Callable[..., Any], x: relax.Expr) -> relax.Expr:
    """A convolution has one result."""
    image = emit(conv(x, 20))
    return relax.Tuple([image, emit(op.nn.relu(image))])


@pytest.mark.parametrize("body", [_waiting, _computed_where_it_is_read, _of_an_anchor])
def test_others_have_one_result(body: Callable[..., relax.Expr]) -> None:
    for chain in chains(relax_module(body, IMAGE)):
        assert len(chain.outputs) == 1
