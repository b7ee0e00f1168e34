# SPDX-License-Identifier: Apache-2.0
"""Tuples that a function returns are no operators."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tvm import relax

from support.networks import check_scheduled, conv, relax_module
from tvm_ios.graph.extract import extract
from tvm_ios.rewrite.prepare import prepare

op = relax.op


def nested(emit, x):
    a, b = emit(op.nn.relu(x)), emit(conv(x, 4))
    inner = emit(relax.Tuple([b, x]))
    return relax.Tuple([a, inner, b])


def read_inside(emit, x):
    """What a tuple holds is taken out of it again, by an operator of several inputs."""
    pair = emit(relax.Tuple([emit(op.nn.relu(x)), emit(conv(x, 4))]))
    return relax.Tuple([pair, emit(op.concat(pair, axis=1))])


def twice(emit, x):
    pair = emit(relax.Tuple([x, emit(conv(x, 4))]))
    return relax.Tuple([pair, pair])


def single(emit, x):
    return relax.Tuple([emit(conv(x, 4))])


CASES: dict[str, tuple[Callable[..., relax.Expr], int]] = {
    "nested": (nested, 2),
    "single": (single, 1),
    "read inside": (read_inside, 3),
    "twice": (twice, 1),
}


@pytest.mark.parametrize(("body", "count"), CASES.values(), ids=CASES)
def test_tuples_of_results(body: Callable[..., relax.Expr], count: int) -> None:
    mod = relax_module(body, (1, 3, 5, 6))
    graph = extract(prepare(mod))
    assert sum(not o.opaque for o in graph.operators) == count
    assert all(o.opaque <= (o.kind == "tuple") for o in graph.operators)
    check_scheduled(mod)


def test_a_tuple_that_is_returned_and_read() -> None:
    """The function returns a tuple that is not bound, of one that is."""
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((1, 3, 5, 6), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            pair = builder.emit_output(relax.Tuple([builder.emit(op.nn.relu(x)), x]))
            joined = builder.emit_output(op.concat(pair, axis=1))
        builder.emit_func_output(relax.Tuple([pair, joined]))
    check_scheduled(builder.get())


def test_a_function_without_operators_copies_its_results() -> None:
    mod = relax_module(lambda _emit, x: relax.Tuple([x, x]), (1, 3, 5, 6))
    assert len(extract(prepare(mod)).operators) == 2
    check_scheduled(mod)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float64"])
@pytest.mark.parametrize("shape", [(), (2, 3), (0, 3)])
def test_an_input_and_a_constant_are_results(dtype: str, shape: tuple[int, ...]) -> None:
    held = relax.const(np.ones(shape, dtype), dtype)
    mod = relax_module(lambda _emit, x: relax.Tuple([held, x]), relax.TensorType(shape, dtype))
    check_scheduled(mod)
