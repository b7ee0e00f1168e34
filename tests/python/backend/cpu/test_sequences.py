# SPDX-License-Identifier: Apache-2.0
"""Attention, recurrent cells and what they are made of, scheduled from end to end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tvm
from tvm import relax

from support.networks import NATIVE, check_scheduled, constant, conv, relax_module
from tvm_ios.backend.cpu.core import core_of
from tvm_ios.backend.cpu.rules import LoweringConfig
from tvm_ios.backend.cpu.rules.implement import implement
from tvm_ios.graph.extract import extract
from tvm_ios.rewrite.prepare import prepare

op = relax.op
Emit = Callable[[relax.Expr], relax.Expr]


def own_kernels(mod: tvm.IRModule) -> list[str]:
    """The kinds of a network's operators, all of which, but for tuples, have a rule."""
    prepared = prepare(mod)
    graph = extract(prepared)
    results = relax.analysis.free_vars(prepared["main"].body.body)
    lowered = implement(graph, results, LoweringConfig(core_of(NATIVE)))
    for operator, implementation in zip(graph.operators, lowered.implementations, strict=True):
        assert operator.opaque or "generic" not in str(implementation.kernel.key), operator.name
    return [operator.kind for operator in graph.operators]


def dense(emit: Emit, x: relax.Expr, features: int, seed: int) -> relax.Expr:
    depth = int(x.ty.shape.values[-1])
    weights = constant(depth, features, seed=seed, scale=depth**-0.5)
    return emit(op.add(emit(op.matmul(x, weights)), constant(features, seed=seed + 1)))


def attention_block(emit: Emit, x: relax.Expr, mask: relax.Expr) -> relax.Expr:
    """Of 3 heads of 10 features on 7 positions, and the layer after it."""
    query, key, value = (
        emit(op.reshape(dense(emit, x, 30, seed), (2, 7, 3, 10))) for seed in (1, 3, 5)
    )
    query = emit(op.permute_dims(query, [0, 2, 1, 3]))
    scores = emit(op.matmul(query, emit(op.permute_dims(key, [0, 2, 3, 1]))))
    scores = emit(op.add(emit(op.multiply(scores, relax.const(10**-0.5, "float32"))), mask))
    weights = emit(op.nn.softmax(scores, axis=-1))
    mixed = emit(op.matmul(weights, emit(op.permute_dims(value, [0, 2, 1, 3]))))
    joined = emit(op.reshape(emit(op.permute_dims(mixed, [0, 2, 1, 3])), (2, 7, 30)))
    added = emit(op.add(dense(emit, joined, 30, 7), x))
    normal = emit(op.nn.layer_norm(added, constant(30, seed=9), constant(30, seed=10), axes=[-1]))
    return dense(emit, emit(op.nn.gelu(dense(emit, normal, 50, 11))), 30, 13)


def test_attention() -> None:
    mod = relax_module(attention_block, (2, 7, 30), (1, 1, 1, 7))
    kinds = own_kernels(mod)
    assert kinds.count("reshape") == 3  # with the transposition after each
    assert kinds.count("permute_dims") == 1  # with the reshape after it
    assert "elementwise" not in kinds  # the mask is added to the scores in registers
    check_scheduled(mod)


def test_a_mask_of_its_own_for_each_sequence_is_added_apart() -> None:
    kinds = own_kernels(relax_module(attention_block, (2, 7, 30), (2, 1, 7, 7)))
    assert kinds.count("elementwise") == 1


def test_numbers_without_axes() -> None:
    def body(emit, x):
        mean = emit(op.mean(x))
        return relax.Tuple([emit(op.exp(emit(op.nn.relu(mean)))), emit(op.multiply(x, mean))])

    check_scheduled(relax_module(body, (3, 20)))


def test_attention_of_images() -> None:
    """Positions are the pixels of a blocked feature map, and go back into one."""

    def body(emit, x):
        pixels = emit(op.reshape(emit(conv(x, 20)), (1, 20, 35)))
        tokens = emit(op.permute_dims(pixels, [0, 2, 1]))
        weights = emit(op.nn.softmax(emit(op.matmul(tokens, pixels)), axis=1))
        mixed = emit(op.permute_dims(emit(op.matmul(weights, tokens)), [0, 2, 1]))
        return emit(conv(emit(op.reshape(mixed, (1, 20, 5, 7))), 8))

    mod = relax_module(body, (1, 6, 5, 7))
    own_kernels(mod)
    check_scheduled(mod)


def lstm_cell(emit: Emit, x: relax.Expr, hidden: relax.Expr, cell: relax.Expr) -> relax.Expr:
    gates = emit(op.add(dense(emit, x, 68, 1), dense(emit, hidden, 68, 3)))
    parts = emit(op.split(gates, 4, axis=1))
    i, f, g, o = (emit(relax.TupleGetItem(parts, n)) for n in range(4))
    kept = emit(op.multiply(emit(op.sigmoid(f)), cell))
    new = emit(op.add(kept, emit(op.multiply(emit(op.sigmoid(i)), emit(op.tanh(g))))))
    return relax.Tuple([emit(op.multiply(emit(op.sigmoid(o)), emit(op.tanh(new)))), new])


@pytest.mark.parametrize("batch", [1, 5])
def test_lstm_cell(batch: int) -> None:
    mod = relax_module(lstm_cell, (batch, 12), (batch, 17), (batch, 17))
    own_kernels(mod)
    check_scheduled(mod)


def nasrnn_cell(emit: Emit, x: relax.Expr, state: relax.Expr) -> relax.Expr:
    def leaf(seed: int) -> relax.Expr:
        pairs = ((x, constant(20, 20, seed=seed)), (state, constant(20, 20, seed=seed + 1)))
        first, second = (emit(op.matmul(v, w)) for v, w in pairs)
        return emit(op.add(first, second))

    relu, tanh, sigmoid = op.nn.relu, op.tanh, op.sigmoid
    left = emit(op.add(emit(relu(leaf(0))), emit(sigmoid(leaf(2)))))
    right = emit(op.multiply(emit(tanh(leaf(4))), emit(sigmoid(leaf(6)))))
    return emit(tanh(emit(op.multiply(emit(tanh(left)), right))))


def test_nasrnn_cell() -> None:
    mod = relax_module(nasrnn_cell, (1, 20), (1, 20))
    assert set(own_kernels(mod)) <= {"matmul", "elementwise"}
    check_scheduled(mod)


def layer_norm_by_hand(emit: Emit, x: relax.Expr) -> relax.Expr:
    """As exporters wrote it before ONNX had the operator."""
    centred = emit(op.subtract(x, emit(op.mean(x, axis=[-1], keepdims=True))))
    squares = emit(op.power(centred, relax.const(2.0, "float32")))
    variance = emit(op.mean(squares, axis=[-1], keepdims=True))
    deviation = emit(op.sqrt(emit(op.add(variance, relax.const(1e-5, "float32")))))
    normal = emit(op.divide(centred, deviation))
    return emit(op.add(emit(op.multiply(normal, constant(30))), constant(30, seed=1)))


SHAPES = [
    ((9,), (9, 20)),
    ((3, 9), (9,)),
    ((2, 3, 9), (9, 5)),
    ((4, 5), (2, 3, 5, 6)),
    ((2, 1, 4, 5), (3, 5, 6)),
]


@pytest.mark.parametrize("shapes", SHAPES)
def test_products_of_any_number_of_axes(shapes) -> None:
    def body(emit, x, y):
        return relax.Tuple([emit(op.matmul(x, y)), emit(op.matmul(x, constant(*shapes[1])))])

    check_scheduled(relax_module(body, *shapes))


def test_transposed_weights_and_several_results() -> None:
    def body(emit, x):
        wide = emit(op.matmul(x, emit(op.permute_dims(constant(40, 12)))))
        parts = emit(op.split(wide, [5, 30], axis=2))
        first, last = (emit(relax.TupleGetItem(parts, n)) for n in (0, 2))
        return relax.Tuple([emit(op.nn.relu(first)), last, emit(layer(wide))])

    layer = lambda x: op.max(x, axis=[1])  # noqa: E731
    mod = relax_module(body, (2, 6, 12))
    own_kernels(mod)
    check_scheduled(mod)


def test_a_split_into_one_part() -> None:
    """Which Relax has as a tensor, and not as a tuple of one."""

    def body(emit, x):
        return emit(op.nn.relu(emit(op.split(emit(op.exp(x)), 1, axis=1))))

    check_scheduled(relax_module(body, (2, 6, 12)))


def test_layer_norm_by_hand() -> None:
    mod = relax_module(layer_norm_by_hand, (2, 7, 30))
    own_kernels(mod)
    check_scheduled(mod)


MOVEMENTS = {
    "slice": lambda x: op.strided_slice(
        x, axes=[1, 3], begin=[3, -1], end=[17, -20], strides=[2, -1]
    ),
    "slice of pixels": lambda x: op.strided_slice(
        x, axes=[2, 3], begin=[1, 0], end=[6, 7], strides=[2, 3]
    ),
    "one row": lambda x: op.strided_slice(x, axes=[2], begin=[4], end=[5]),
    "repeated": lambda x: op.broadcast_to(op.mean(x, axis=1, keepdims=True), (2, 20, 6, 7)),
    "squeezed": lambda x: op.squeeze(op.expand_dims(x, [0, 2])),
    "channels last": lambda x: op.permute_dims(x, [0, 2, 3, 1]),
    "flat": lambda x: op.flatten(x),
}


@pytest.mark.parametrize("blocked", [False, True])
def test_movements(blocked: bool) -> None:
    """Of a row-major tensor and of a feature map that a convolution left blocked."""

    def body(emit, x):
        value = emit(conv(x, 20)) if blocked else x
        moved = [emit(op.nn.relu(emit(make(value)))) for make in MOVEMENTS.values()]
        return relax.Tuple([*moved, emit(op.nn.max_pool2d(value, (2, 2)))])

    mod = relax_module(body, (2, 20, 6, 7))
    own_kernels(mod)
    check_scheduled(mod)


def test_movements_that_cannot_be_one_view() -> None:
    """A transposition, a reshape of what is no longer even, and another transposition."""

    def body(emit, x):
        joined = emit(op.reshape(emit(op.permute_dims(x, [0, 2, 1])), (2, 30)))
        return emit(op.add(emit(op.permute_dims(joined, [1, 0])), constant(30, 2)))

    mod = relax_module(body, (2, 5, 6))
    assert own_kernels(mod) == ["permute_dims", "permute_dims"]
    check_scheduled(mod)
