# SPDX-License-Identifier: Apache-2.0
"""Which rows of a batch, and which positions of a sequence, a network lets depend on each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relax

from support.networks import constant, conv, relax_module
from tvm_ios.compiler.dependence.servable import find_servable
from tvm_ios.ops.recurrence import Recurrence
from tvm_ios.ops.recurrence_function import recurrence
from tvm_ios.rewrite.prepare import prepare

op = relax.op
Body = Callable[..., relax.Expr]


def number(value: float, dtype: str = "float32") -> relax.Expr:
    return relax.const(np.array(value, dtype))


def splits(body: Body, *inner: int, batches: tuple[int, ...] = (1, 2, 4), axis: int = 0) -> bool:
    """Return whether the batch may be split of networks of an input with rows ``inner``."""
    shapes = [(*inner[:axis], batch, *inner[axis:]) for batch in batches]
    networks = [
        (prepare(relax_module(body, shape), attention_depth=128), "main") for shape in shapes
    ]
    return find_servable(networks).splits


def mean_of_rows(emit: Any, x: relax.Var) -> relax.Expr:
    """Depend on other rows only where their mean is far from 0."""
    mean = emit(op.mean(x, 0, keepdims=True))
    return emit(op.add(x, emit(op.nn.relu(emit(op.subtract(mean, number(3.0)))))))


def batch_norm(emit: Any, x: relax.Var) -> relax.Expr:
    weights = [relax.const(np.full(6, n, "float32")) for n in (1.0, 0.0)]
    mean = emit(op.mean(x, [0]))
    variance = emit(op.variance(x, [0]))
    return emit(op.divide(emit(op.subtract(x, mean)), emit(op.add(variance, weights[0]))))


def across_the_batch(emit: Any, x: relax.Var) -> relax.Expr:
    scores = emit(op.matmul(x, emit(op.permute_dims(x, [1, 0]))))
    return emit(op.matmul(emit(op.nn.softmax(scores, -1)), x))


def merged_rows(emit: Any, x: relax.Var) -> relax.Expr:
    """Divide all rows together into three."""
    thirds = emit(op.reshape(x, (3, 2 * int(x.ty.shape[0]))))
    return emit(op.reshape(emit(op.nn.softmax(thirds, -1)), x.ty.shape))


def sequence_of_rows(emit: Any, x: relax.Var) -> relax.Expr:
    return emit(op.reshape(emit(op.cumsum(emit(op.reshape(x, (1, -1, 6))), 1)), x.ty.shape))


def scaled_by_rows(emit: Any, x: relax.Var) -> relax.Expr:
    """Compute something else in each batch size, which normal numbers hide."""
    high = number(1e3 * int(x.ty.shape[0]))
    return emit(op.add(x, emit(op.nn.relu(emit(op.subtract(x, high))))))


def numbered_rows(emit: Any, x: relax.Var) -> relax.Expr:
    numbers = np.arange(int(x.ty.shape[0]), dtype="float32")[:, None]
    return emit(op.add(x, emit(op.nn.relu(emit(op.subtract(x, relax.const(numbers + 9)))))))


@pytest.mark.parametrize(
    "body",
    [
        mean_of_rows,
        batch_norm,
        across_the_batch,
        merged_rows,
        sequence_of_rows,
        scaled_by_rows,
        numbered_rows,
        lambda emit, x: emit(op.nn.softmax(x, 0)),
        lambda emit, x: emit(op.matmul(x, emit(op.permute_dims(x, [1, 0])))),
        lambda emit, x: emit(op.cumsum(x, 0)),
        lambda emit, x: emit(op.sort(x, 0)),
        lambda emit, x: emit(op.topk(x, 1, 0, "values")),
        lambda emit, x: emit(op.flip(x, 0)),
        lambda emit, x: emit(op.argmax(x, 0)),
        lambda emit, x: emit(op.add(x, emit(op.max(x, None)))),
        lambda emit, x: emit(op.permute_dims(x, [1, 0])),
        lambda emit, x: emit(op.reshape(emit(op.permute_dims(x, [1, 0])), x.ty.shape)),
        lambda emit, x: emit(op.add(x, emit(op.strided_slice(x, [0], [0], [1])))),
        lambda emit, x: emit(op.take(x, relax.const(np.zeros(int(x.ty.shape[0]), "int64")), 0)),
        lambda emit, x: emit(op.matmul(x, emit(op.einsum((x, x), "ij,ik->jk")))),
    ],
)
def test_rows_that_meet(body: Body) -> None:
    assert not splits(body, 6)


def resnet(emit: Any, x: relax.Var) -> relax.Expr:
    first = emit(op.nn.relu(emit(conv(x, 8))))
    second = emit(op.add(first, emit(conv(first, 8, seed=1))))
    pooled = emit(op.nn.max_pool2d(second, (2, 2), (2, 2)))
    mean = emit(op.mean(pooled, [2, 3]))
    return emit(op.nn.softmax(emit(op.matmul(mean, constant(8, 5))), -1))


def shuffle(emit: Any, x: relax.Var) -> relax.Expr:
    """Shuffle channels, then move blocks of them to places."""
    batch = int(x.ty.shape[0])
    groups = emit(op.reshape(x, (batch, 2, 4, 6, 6)))
    shuffled = emit(op.reshape(emit(op.permute_dims(groups, [0, 2, 1, 3, 4])), (batch, 8, 6, 6)))
    blocks = emit(op.reshape(shuffled, (batch, 2, 2, 2, 6, 6)))
    places = emit(op.permute_dims(blocks, [0, 3, 4, 1, 5, 2]))
    return emit(op.reshape(places, (batch, 2, 12, 12)))


def attend(
    emit: Any, x: relax.Var, bias: relax.Expr | None = None, guarded: bool = False
) -> relax.Expr:
    """Return what two heads of four columns attend to, as exporters write it.

    If ``guarded``, weights are 0 where all scores are minus infinity, as PyTorch writes it.
    """
    batch, length = (int(n) for n in list(x.ty.shape)[:2])

    def heads(seed: int, order: list[int]) -> relax.Expr:
        projected = emit(op.matmul(x, constant(8, 8, seed=seed)))
        return emit(op.permute_dims(emit(op.reshape(projected, (batch, length, 2, 4))), order))

    scores = emit(op.matmul(heads(1, [0, 2, 1, 3]), heads(2, [0, 2, 3, 1])))
    scores = emit(op.multiply(scores, number(0.5)))
    if bias is not None:
        scores = emit(op.add(scores, bias))
    weights = emit(op.nn.softmax(scores, -1))
    if guarded:
        hidden = emit(op.equal(emit(op.max(scores, [-1], keepdims=True)), number(-np.inf)))
        weights = emit(op.where(hidden, number(0.0), weights))
    mixed = emit(op.matmul(weights, heads(3, [0, 2, 1, 3])))
    return emit(op.reshape(emit(op.permute_dims(mixed, [0, 2, 1, 3])), (batch, length, 8)))


def encoder(
    emit: Any, x: relax.Var, bias: relax.Expr | None = None, guarded: bool = False
) -> relax.Expr:
    ones, zeros = (relax.const(np.full(8, n, "float32")) for n in (1.0, 0.0))
    for _ in range(2):
        mixed = emit(op.add(x, attend(emit, x, bias, guarded)))
        x = emit(op.nn.layer_norm(mixed, ones, zeros, -1))
        wide = emit(op.nn.gelu(emit(op.matmul(x, constant(8, 16)))))
        x = emit(op.add(x, emit(op.matmul(wide, constant(16, 8)))))
    return x


def with_token(emit: Any, x: relax.Var) -> relax.Expr:
    batch = int(x.ty.shape[0])
    token = emit(op.broadcast_to(constant(1, 1, 8), (batch, 1, 8)))
    return encoder(emit, emit(op.concat([token, x], 1)))


def merged_heads(emit: Any, x: relax.Var) -> relax.Expr:
    """Attend by heads that are merged with the batch."""
    batch, length = (int(n) for n in list(x.ty.shape)[:2])
    split = emit(op.permute_dims(emit(op.reshape(x, (batch, length, 2, 4))), [0, 2, 1, 3]))
    merged = emit(op.reshape(split, (batch * 2, length, 4)))
    scores = emit(op.matmul(merged, emit(op.permute_dims(merged, [0, 2, 1]))))
    mixed = emit(op.matmul(emit(op.nn.softmax(scores, -1)), merged))
    back = emit(op.reshape(mixed, (batch, 2, length, 4)))
    return emit(op.reshape(emit(op.permute_dims(back, [0, 2, 1, 3])), (batch, length, 8)))


def positions_first(emit: Any, x: relax.Var) -> relax.Expr:
    """Transpose the batch behind the positions, flatten both, and transpose back."""
    batch, length = (int(n) for n in list(x.ty.shape)[:2])
    swapped = emit(op.permute_dims(x, [1, 0, 2]))
    flat = emit(op.reshape(swapped, (length * batch, 8)))
    wide = emit(op.reshape(emit(op.matmul(flat, constant(8, 8))), (length, batch, 8)))
    return emit(op.permute_dims(wide, [1, 0, 2]))


@pytest.mark.parametrize(
    ("body", "inner"),
    [
        (resnet, (3, 8, 8)),
        (shuffle, (8, 6, 6)),
        (encoder, (5, 8)),
        (with_token, (5, 8)),
        (merged_heads, (5, 8)),
        (positions_first, (5, 8)),
        (lambda emit, x: emit(op.reshape(x, (int(x.ty.shape[0]), 3, 2))), (6,)),
        (lambda emit, x: emit(op.cumsum(x, 1)), (6,)),
        (lambda emit, x: emit(op.argmax(x, 1)), (6,)),
        (lambda emit, x: emit(op.topk(x, 2, 1, "values")), (6,)),
        (lambda emit, x: emit(op.concat(emit(op.split(x, 2, 1)), 1)), (6,)),
    ],
)
def test_rows_that_do_not_meet(body: Body, inner: tuple[int, ...]) -> None:
    assert splits(body, *inner)


def test_rows_of_several_elements_of_a_merged_axis() -> None:
    def body(emit: Any, x: relax.Var) -> relax.Expr:
        batch = int(x.ty.shape[0])
        pairs = emit(op.reshape(x, (batch * 3, 2)))
        return emit(op.reshape(emit(op.nn.softmax(pairs, -1)), (batch, 6)))

    assert splits(body, 6)


def rows_of_one(emit: Any, x: relax.Var) -> relax.Expr:
    """Multiply rows as a matrix if there is one of them, as PyTorch does, else as matrices."""
    batch = int(x.ty.shape[0])
    weights = np.random.default_rng(0).standard_normal((8, 8)).astype("float32")
    if batch == 1:
        flat = emit(op.matmul(emit(op.reshape(x, (5, 8))), relax.const(weights)))
        return emit(op.reshape(emit(op.add(constant(8), flat)), (1, 5, 8)))
    copies = np.broadcast_to(weights, (batch, 8, 8)).copy()
    return emit(op.add(emit(op.matmul(x, relax.const(copies))), constant(8)))


def test_functions_that_are_written_in_several_ways() -> None:
    assert splits(rows_of_one, 5, 8)


def test_parts_of_constants_with_a_batch() -> None:
    """The initial states of recurrent layers are parts of one constant."""

    def body(emit: Any, x: relax.Var) -> relax.Expr:
        batch = int(x.ty.shape[0])
        states = np.random.default_rng(0).standard_normal((2, 1, 6)).astype("float32")
        all_states = relax.const(np.broadcast_to(states, (2, batch, 6)).copy())
        state = emit(op.squeeze(emit(op.strided_slice(all_states, [0], [1], [2])), [0]))
        return emit(op.add(x, state))

    assert splits(body, 6)


def test_a_mask_of_indices() -> None:
    """PyTorch takes the mask of each query by indices that count its axes."""

    def body(emit: Any, x: relax.Var, mask: relax.Var) -> relax.Expr:
        batch, length = (int(n) for n in mask.ty.shape)
        rows, columns = (np.arange(n, dtype="int64") for n in (batch, length))
        indices = [relax.const(rows[:, None, None, None]), relax.const(columns)]
        taken = emit(op.index_tensor(mask, relax.Tuple(indices)))
        shown = emit(op.broadcast_to(taken, (batch, 1, length, length)))
        low = emit(op.multiply(emit(op.subtract(number(1.0), shown)), number(-1e9)))
        return encoder(emit, x, low)

    assert pads(body, 8)
    modules = [prepare(relax_module(body, (n, 5, 8), (n, 5))) for n in (1, 2, 3)]
    assert find_servable([(module, "main") for module in modules]).splits


@pytest.mark.parametrize("backwards", [False, True])
def test_recurrent_layers_keep_rows_apart(backwards: bool) -> None:
    networks = []
    for batch in (1, 3):
        layer = Recurrence("lstm", ("sigmoid", "tanh", "tanh"), 5, batch, 4, backwards)
        builder = relax.BlockBuilder()
        x = relax.Var("x", relax.TensorType((batch, 5, 6), "float32"))
        with builder.function("main", [x]):
            with builder.dataflow():
                steps = builder.emit(op.permute_dims(x, [1, 0, 2]))
                products = builder.emit(op.matmul(steps, constant(6, 16)))
                states = [relax.const(np.zeros((batch, 4), "float32")) for _ in range(2)]
                made = recurrence(builder, layer, [products, constant(4, 16), *states])
                swapped = op.permute_dims(builder.emit(made[0]), [1, 0, 2])
                result = builder.emit_output(builder.emit(swapped))
            builder.emit_func_output(result)
        networks.append((prepare(builder.get()), "main"))
    assert find_servable(networks).splits


def pads(body: Body, *rest: int, lengths: tuple[int, ...] = (4, 8, 9)) -> bool:
    """Return whether the second axis of the inputs may be padded.

    The inputs are ``x``, of positions of the shape ``rest``, and ``mask``, a number for each.
    """
    networks = []
    for length in lengths:
        module = relax_module(body, (1, length, *rest), (1, length))
        networks.append((prepare(module, attention_depth=128), "main"))
    return bool(find_servable(networks).pads)


def masked(low: float) -> Body:
    def body(emit: Any, x: relax.Var, mask: relax.Var) -> relax.Expr:
        absent = emit(op.subtract(number(1.0), mask))
        penalty = emit(op.multiply(absent, number(low)))
        return encoder(emit, x, emit(op.expand_dims(penalty, [1, 2])))

    return body


def masked_by_infinity(*, guarded: bool) -> Body:
    def body(emit: Any, x: relax.Var, mask: relax.Var) -> relax.Expr:
        absent = emit(op.equal(emit(op.expand_dims(mask, [1, 2])), number(0.0)))
        bias = emit(op.where(absent, number(-np.inf), number(0.0)))
        return encoder(emit, x, bias, guarded)

    return body


def causal(low: float, *, ahead: int = 0, guarded: bool = False) -> Body:
    """Let positions attend to those before them, and to some that are ahead."""

    def body(emit: Any, x: relax.Var, _: relax.Var) -> relax.Expr:
        length = int(x.ty.shape[1])
        later = np.triu(np.full((length, length), 1.0), ahead + 1)
        bias = np.where(later > 0, low, 0.0).astype("float32")[None, None]
        return encoder(emit, x, relax.const(bias), guarded)

    return body


def root_mean_square(emit: Any, x: relax.Var, mask: relax.Var) -> relax.Expr:
    """Normalise positions before those that are present are summed."""
    square = emit(op.mean(emit(op.multiply(x, x)), [-1], keepdims=True))
    scaled = emit(op.multiply(x, emit(op.rsqrt(emit(op.add(square, number(1e-6)))))))
    return mean_of_present(emit, scaled, mask)


def mean_of_present(emit: Any, x: relax.Var, mask: relax.Var) -> relax.Expr:
    present = emit(op.multiply(x, emit(op.expand_dims(mask, [2]))))
    count = emit(op.maximum(emit(op.sum(mask, [1], keepdims=True)), number(1.0)))
    return emit(op.divide(emit(op.sum(present, [1])), count))


def largest_of_present(low: float) -> Body:
    def body(emit: Any, x: relax.Var, mask: relax.Var) -> relax.Expr:
        present = emit(op.greater(emit(op.expand_dims(mask, [2])), number(0.5)))
        return emit(op.max(emit(op.where(present, x, number(low))), [1]))

    return body


def chosen_scores(emit: Any, x: relax.Var, mask: relax.Var) -> relax.Expr:
    """Attend once, by scores that are minus infinity where nothing is."""
    absent = emit(op.equal(emit(op.expand_dims(mask, [1])), number(0.0)))
    scores = emit(op.matmul(x, emit(op.permute_dims(x, [0, 2, 1]))))
    weights = emit(op.nn.softmax(emit(op.where(absent, number(-np.inf), scores)), -1))
    return emit(op.matmul(weights, x))


def with_places(emit: Any, x: relax.Var, mask: relax.Var) -> relax.Expr:
    """Add what each place has, and return the first one as well as all of them."""
    table = np.random.default_rng(0).standard_normal((64, 8)).astype("float32")
    placed = emit(op.add(x, relax.const(table[: int(x.ty.shape[1])])))
    hidden = masked(-1e4)(emit, placed, mask)
    return emit(op.strided_slice(hidden, [1], [0], [1]))


@pytest.mark.parametrize(
    "body",
    [
        masked(-1e4),
        masked(-1e9),
        masked(float(np.finfo("float32").min)),
        masked_by_infinity(guarded=True),
        causal(-1e9),
        causal(-np.inf, guarded=True),
        root_mean_square,
        mean_of_present,
        largest_of_present(-np.inf),
        largest_of_present(float(np.finfo("float32").min)),
        chosen_scores,
        with_places,
        lambda emit, x, mask: emit(op.nn.softmax(x, -1)),
        lambda emit, x, mask: emit(op.cumsum(x, 1)),
    ],
)
def test_padding_that_changes_nothing(body: Body) -> None:
    assert pads(body, 8)


def far_places(emit: Any, x: relax.Var, mask: relax.Var) -> relax.Expr:
    """Count places from the end, so that they depend on the length."""
    length = int(x.ty.shape[1])
    places = np.arange(length, dtype="float32")[::-1].copy()
    return emit(op.add(x, relax.const(places[:, None])))


@pytest.mark.parametrize(
    "body",
    [
        masked(-1e3),
        masked_by_infinity(guarded=False),  # the second layer may read NaN
        causal(-1e9, ahead=1),
        causal(-1e3),
        far_places,
        largest_of_present(-1e6),
        lambda emit, x, mask: encoder(emit, x),
        lambda emit, x, mask: emit(op.mean(x, [1])),
        lambda emit, x, mask: emit(op.max(x, [1])),
        lambda emit, x, mask: emit(op.sum(emit(op.nn.gelu(emit(op.add(x, number(1.0))))), [1])),
        lambda emit, x, mask: emit(op.nn.softmax(x, 1)),
        lambda emit, x, mask: emit(op.log(emit(op.sum(emit(op.exp(x)), [1])))),
        lambda emit, x, mask: emit(op.argmax(x, 1)),
        lambda emit, x, mask: emit(op.flip(x, 1)),
        lambda emit, x, mask: emit(op.strided_slice(x, [1], [1], [2])),
        lambda emit, x, mask: emit(op.sum(emit(op.divide(x, x)), [1])),
        lambda emit, x, mask: emit(op.concat([constant(1, 1, 8), x], 1)),
    ],
)
def test_padding_that_would_be_read(body: Body) -> None:
    assert not pads(body, 8)
