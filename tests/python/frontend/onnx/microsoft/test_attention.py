# SPDX-License-Identifier: Apache-2.0
"""Attentions of ONNX Runtime's own domain."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tvm import relax

from support.contributed import Node, check, check_close, compiled, numbers
from tvm_ios.errors import ModelError
from tvm_ios.frontend.dimensions import Given
from tvm_ios.frontend.onnx.file import from_file
from tvm_ios.relax_ir.expressions import op_name
from tvm_ios.rewrite.prepare import prepare

BATCH, QUERIES, KEYS, HEADS, DEPTH = 2, 5, 7, 4, 4
WIDTH = HEADS * DEPTH
PAST, TOTAL = 3, QUERIES + 3


def flags(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(0, 2, shape).astype("int32")


def int32(*values: int) -> np.ndarray:
    return np.array(values, "int32")


def projection(
    mask: np.ndarray | None = None,
    past: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    outputs: Sequence[str] = ("y",),
) -> Node:
    """An ``Attention`` with constant weights."""
    weights = numbers(WIDTH, 3 * WIDTH) / 4
    inputs = [numbers(BATCH, QUERIES, WIDTH), weights, numbers(3 * WIDTH), mask, past, bias]
    return Node("Attention", inputs, (1, 2), outputs)


STATE = numbers(2, BATCH, HEADS, PAST, DEPTH)
PROJECTIONS: dict[str, tuple[Node, dict[str, Any]]] = {
    "plain": (projection(), {}),
    "scaled, causal": (projection(), {"scale": 0.7, "unidirectional": 1}),
    "images mask keys": (projection(flags(BATCH, QUERIES)), {}),
    "causal, images mask keys": (
        projection(flags(BATCH, QUERIES)),
        {"unidirectional": 1, "mask_filter_value": -3.0},
    ),
    "a mask of one element hides nothing": (projection(np.zeros((BATCH, 1), "int32")), {}),
    "ends": (projection(int32(3, 9)), {}),
    "ends and begins": (projection(int32(3, 5, 1, 2)), {"unidirectional": 1}),
    "queries mask keys": (projection(flags(BATCH, QUERIES, QUERIES)), {}),
    "bias": (projection(bias=numbers(1, HEADS, QUERIES, QUERIES)), {}),
    "past": (projection(past=STATE, outputs=("y", "present")), {"unidirectional": 1}),
    "past, mask": (
        projection(flags(BATCH, TOTAL), STATE, outputs=("y", "present")),
        {"mask_filter_value": -2.0},
    ),
    "no past yet": (
        projection(past=STATE[:, :, :, :0], outputs=("y", "present")),
        {"unidirectional": 1},
    ),
    "values of another width": (
        Node("Attention", [numbers(2, 5, 20), numbers(20, 56) / 4, numbers(56)], (1, 2)),
        {"qkv_hidden_sizes": [16, 16, 24]},
    ),
    "computed weights": (Node("Attention", [numbers(2, 5, 16), numbers(16, 48) / 4]), {}),
}


@pytest.mark.parametrize("name", PROJECTIONS)
def test_projected(name: str, tmp_path: Path) -> None:
    node, attributes = PROJECTIONS[name]
    check(tmp_path, node, num_heads=HEADS, **attributes)


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def by_definition(query: np.ndarray, key: np.ndarray, value: np.ndarray, added: Any) -> np.ndarray:
    """An attention of ``[batch, rows, heads, columns]``, as rows of all heads."""
    q, k, v = (x.transpose(0, 2, 1, 3).astype("float64") for x in (query, key, value))
    weights = softmax(q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1]) + added)
    rows = (weights @ v).transpose(0, 2, 1, 3)
    return rows.reshape(*rows.shape[:2], -1).astype("float32")


def test_a_mask_of_a_longer_sequence(tmp_path: Path) -> None:
    """The rows behind the past are those of the queries; ONNX Runtime has no kernel for CPUs."""
    mask = flags(BATCH, 1, 9, 9)
    node = projection(mask, STATE, outputs=("y", "present"))
    result = compiled(tmp_path, node, num_heads=HEADS)[0]
    data, weights, vector = node.inputs[:3]
    parts = np.split(data @ weights + vector, 3, -1)
    heads = [x.reshape(BATCH, QUERIES, HEADS, DEPTH) for x in parts]
    past = STATE.transpose(0, 1, 3, 2, 4)
    keys, values = (np.concatenate(pair, 1) for pair in zip(past, heads[1:], strict=True))
    hidden = np.where(mask[:, :, PAST:TOTAL, :TOTAL] > 0, 0, -10000)
    check_close([result], [by_definition(heads[0], keys, values, hidden)])


def separate(
    *others: np.ndarray | None, keys: int = KEYS, width: int = WIDTH, outputs: int = 1
) -> Node:
    """A ``MultiHeadAttention`` of queries, keys and values."""
    names = ("y", "present_key", "present_value")[:outputs]
    parts = [numbers(BATCH, QUERIES, WIDTH), numbers(BATCH, keys, WIDTH)]
    return Node(
        "MultiHeadAttention", [*parts, numbers(BATCH, keys, width, seed=1), *others], (), names
    )


BY_HEADS = numbers(BATCH, HEADS, KEYS, DEPTH)
OLD = (numbers(BATCH, HEADS, PAST, DEPTH), numbers(BATCH, HEADS, PAST, DEPTH, seed=1))
SEPARATE: dict[str, tuple[Node, dict[str, Any]]] = {
    "plain": (separate(), {}),
    "values of another width": (separate(numbers(56), width=24), {"scale": 0.3}),
    "causal": (separate(numbers(48), keys=QUERIES), {"unidirectional": 1}),
    "ends": (separate(None, int32(3, 7)), {}),
    "images mask keys": (separate(None, flags(BATCH, KEYS)), {"mask_filter_value": -2.0}),
    "queries mask keys": (
        separate(None, flags(BATCH, QUERIES, KEYS), numbers(BATCH, 1, QUERIES, KEYS)),
        {"mask_filter_value": -2.0},
    ),
    "bias": (separate(None, None, numbers(1, HEADS, QUERIES, KEYS)), {}),
    "past": (
        separate(numbers(48), flags(BATCH, TOTAL), None, *OLD, keys=QUERIES, outputs=3),
        {"unidirectional": 1, "mask_filter_value": -2.0},
    ),
    "present": (separate(outputs=3), {}),
    "keys by heads": (
        Node("MultiHeadAttention", [numbers(BATCH, QUERIES, WIDTH), BY_HEADS, BY_HEADS[:, ::-1]]),
        {},
    ),
    "keys by heads, bias of queries": (
        Node(
            "MultiHeadAttention",
            [numbers(BATCH, QUERIES, WIDTH), BY_HEADS, BY_HEADS[:, ::-1], numbers(48)],
        ),
        {},
    ),
    "one query": (
        Node(
            "DecoderMaskedMultiHeadAttention",
            [numbers(BATCH, 1, WIDTH), BY_HEADS, BY_HEADS[:, ::-1], flags(BATCH, KEYS)],
        ),
        {"mask_filter_value": -2.0},
    ),
}


@pytest.mark.parametrize("name", SEPARATE)
def test_separate(name: str, tmp_path: Path) -> None:
    node, attributes = SEPARATE[name]
    check(tmp_path, node, num_heads=HEADS, **attributes)


@pytest.mark.parametrize("count", [2, 3])
def test_packed(count: int, tmp_path: Path) -> None:
    """Keys and values, or all of them, are packed, which ONNX Runtime has for GPUs."""
    packed = numbers(BATCH, KEYS, HEADS, count, DEPTH)
    parts = [packed[:, :, :, i] for i in range(count)]
    if count == 2:
        query = numbers(BATCH, QUERIES, WIDTH)
        inputs, vector = [query, packed], np.zeros(3 * WIDTH, "float32")
        parts.insert(0, query.reshape(BATCH, QUERIES, HEADS, DEPTH))
    else:
        vector = numbers(3 * WIDTH)
        inputs = [packed, None, None, vector]
    biases = vector.reshape(3, HEADS, DEPTH)
    heads = [part + bias for part, bias in zip(parts, biases, strict=True)]
    result = compiled(tmp_path, Node("MultiHeadAttention", inputs), num_heads=HEADS)
    check_close(result, [by_definition(*heads, 0.0)])


def test_scores_are_a_result(tmp_path: Path) -> None:
    node = separate(None, None, numbers(1, 1, QUERIES, KEYS))
    query, key = (x.reshape(BATCH, -1, HEADS, DEPTH) for x in node.inputs[:2])
    wanted = np.einsum("bqhd,bkhd->bhqk", query, key) / 2 + node.inputs[5]
    node = Node(node.kind, node.inputs, (), ("", "", "", "qk"))
    check_close(compiled(tmp_path, node, num_heads=HEADS), [wanted])


INVALID = {
    "hides keys of another sequence": (separate(), {"unidirectional": 1}),
    r"a mask of \[4\] for scores": (separate(None, int32(1, 2, 3, 4)), {}),
    r"a mask of \[8\] for scores": (projection(int32(*range(8))), {}),
    r"a mask of \[2, 3\] for scores": (projection(flags(BATCH, 3)), {}),
    "has no past values, but the other ones": (separate(None, None, None, OLD[0]), {}),
    "fewer past keys or values": (
        separate(None, None, None, OLD[0], numbers(BATCH, HEADS, 4, DEPTH)),
        {},
    ),
    r"an attention bias of \[2, 4, 1, 7\]": (separate(None, None, numbers(2, 4, 1, 7)), {}),
    "has neither keys nor queries that are packed": (
        Node("MultiHeadAttention", [numbers(BATCH, QUERIES, WIDTH)]),
        {},
    ),
    r"has values by heads of \[2, 4, 7, 4\]; it must be of \[2, 4, 6, 4\]": (
        Node("MultiHeadAttention", [numbers(2, 5, 16), numbers(2, 6, 16), numbers(2, 7, 16)]),
        {},
    ),
    "16 columns for 5 heads": (projection(), {"num_heads": 5}),
    r"divides 48 columns into \[16, 24, 8\]": (projection(), {"qkv_hidden_sizes": [16, 24, 8]}),
    "rotates queries and keys": (projection(), {"do_rotary": 1}),
    r"a longer buffer": (projection(past=STATE), {"past_present_share_buffer": 1}),
    "has the input cache_indirection": (
        separate(None, None, None, None, None, None, flags(BATCH, 1, 9)),
        {},
    ),
    r"weights of \[3, 16, 48\]": (
        Node("Attention", [numbers(2, 5, 16), numbers(3, 16, 48)]),
        {},
    ),
}


@pytest.mark.parametrize("problem", INVALID)
def test_what_cannot_be_is_refused(problem: str, tmp_path: Path) -> None:
    node, attributes = INVALID[problem]
    with pytest.raises(ModelError, match=problem):
        compiled(tmp_path, node, **{"num_heads": HEADS, **attributes})


KERNELS = {
    "plain": (projection(), {}),
    "causal": (projection(), {"unidirectional": 1}),
    "images mask keys": (projection(flags(BATCH, QUERIES)), {}),
    "ends": (projection(int32(3, 9)), {}),
    "separate": (separate(numbers(48), flags(BATCH, KEYS)), {}),
    "packed": (Node("MultiHeadAttention", [numbers(BATCH, KEYS, HEADS, 3, DEPTH)]), {}),
}


@pytest.mark.parametrize("name", KERNELS)
def test_the_kernel_of_attention_computes_it(name: str, tmp_path: Path) -> None:
    node, attributes = KERNELS[name]
    onnx.save(node.model(num_heads=HEADS, **attributes), tmp_path / "m.onnx")
    func = prepare(from_file(tmp_path / "m.onnx", Given()), attention_depth=512)["main"]
    names: list[str] = []
    relax.analysis.post_order_visit(func, lambda expr: names.append(op_name(expr)))
    assert sum(name.startswith("nn.attention") for name in names) == 1
    assert "nn.softmax" not in names
