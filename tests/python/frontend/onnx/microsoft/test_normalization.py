# SPDX-License-Identifier: Apache-2.0
"""Normalisations and embeddings of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.contributed import Node, check, check_close, compiled, numbers
from tvm_ios.errors import ModelError

BATCH, ROWS, WIDTH = 2, 3, 17
DATA = numbers(BATCH, ROWS, WIDTH)
GAMMA, BETA, BIAS = (numbers(WIDTH, seed=i) for i in range(3))


def skipping(kind: str, *inputs: np.ndarray | None, outputs: Sequence[str] = ("y",)) -> Node:
    return Node(kind, [DATA, *inputs], (), outputs)


SUM = ("y", "", "", "sum")
SUMS = {
    "all rows": skipping("SkipLayerNormalization", DATA[::-1], GAMMA, BETA, BIAS, outputs=SUM),
    "shared by images": skipping("SkipLayerNormalization", numbers(1, ROWS, WIDTH), GAMMA, BETA),
    "of two axes": skipping("SkipLayerNormalization", numbers(ROWS, WIDTH), GAMMA, BETA),
    "no offset": skipping("SkipLayerNormalization", DATA[::-1], GAMMA, None, BIAS),
    "equal elements": skipping("SkipLayerNormalization", -DATA, GAMMA, BETA),
    "root mean square": skipping(
        "SkipSimplifiedLayerNormalization", DATA[::-1], GAMMA, BIAS, outputs=SUM
    ),
    "root mean square, no bias": skipping(
        "SkipSimplifiedLayerNormalization", numbers(ROWS, WIDTH), GAMMA
    ),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_are_normalised(name: str, tmp_path: Path) -> None:
    check(tmp_path, SUMS[name], epsilon=1e-5)


@pytest.mark.parametrize("kind", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_sums_of_16_bits_are_normalised(kind: str, tmp_path: Path) -> None:
    inputs = [x.astype("float16") for x in (DATA, DATA[::-1], GAMMA, BETA)]
    check(tmp_path, Node(kind, inputs, (), SUM), epsilon=1e-5)


@pytest.mark.parametrize(
    ("kind", "opset"), [("LayerNormalization", 11), ("SimplifiedLayerNormalization", 16)]
)
def test_older_opsets_have_normalisations_of_onnx_runtime(
    kind: str, opset: int, tmp_path: Path
) -> None:
    factors = [numbers(ROWS, WIDTH)] * (2 if kind == "LayerNormalization" else 1)
    check(tmp_path, Node(kind, [DATA, *factors], domain="", opset=opset), axis=1, epsilon=1e-3)


@pytest.mark.parametrize(
    "node",
    [
        skipping("SkipLayerNormalization", DATA, GAMMA, BETA, outputs=("y", "mean")),
        Node("SimplifiedLayerNormalization", [DATA, GAMMA], (), ("y", "inverse"), ""),
    ],
    ids=lambda node: node.kind,
)
def test_statistics_for_training_are_refused(node: Node, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="returns statistics for training"):
        compiled(tmp_path, node)


@pytest.mark.parametrize("shape", [(WIDTH,), (BATCH, 1, WIDTH)])
def test_rows_of_another_shape_are_refused(shape: tuple[int, ...], tmp_path: Path) -> None:
    node = skipping("SkipLayerNormalization", numbers(*shape), GAMMA, BETA)
    with pytest.raises(ModelError, match=r"adds a tensor of .* to rows of \[2, 3, 17\]"):
        compiled(tmp_path, node)


def _grouped(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, groups: int) -> np.ndarray:
    """A group normalisation of images with their channels last."""
    n, h, w, c = x.shape
    parts = x.astype("float64").reshape(n, h * w, groups, c // groups)
    centred = parts - parts.mean((1, 3), keepdims=True)
    deviation = np.sqrt((centred**2).mean((1, 3), keepdims=True) + 1e-3)
    return (centred / deviation).reshape(x.shape) * gamma + beta


def _silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


@pytest.mark.parametrize(("dtype", "last"), [("float32", 0), ("float16", 1)])
def test_groups_of_channels(last: int, dtype: str, tmp_path: Path) -> None:
    data, gamma, beta = numbers(2, 5, 3, 6, dtype=dtype), numbers(6), numbers(6, seed=1)
    given = data if last else np.ascontiguousarray(data.transpose(0, 3, 1, 2))
    node = Node("GroupNorm", [given, gamma, beta])
    wanted = _silu(_grouped(data, gamma, beta, 3)).astype(dtype)
    attributes = {"groups": 3, "epsilon": 1e-3, "activation": 1, "channels_last": last}
    result = compiled(tmp_path, node, **attributes)
    check_close(result, [wanted if last else wanted.transpose(0, 3, 1, 2)])


@pytest.mark.parametrize(
    ("skip", "biased"), [((2, 5, 3, 6), True), ((2, 1, 1, 6), False), ((2, 6), True)]
)
def test_groups_of_channels_of_a_sum(skip: tuple[int, ...], biased: bool, tmp_path: Path) -> None:
    data, gamma, beta = numbers(2, 5, 3, 6), numbers(6), numbers(6, seed=1)
    added, bias = numbers(*skip, seed=1), numbers(6, seed=2) if biased else None
    node = Node("SkipGroupNorm", [data, gamma, beta, added, bias], (), ("y", "sum"))
    total = data + (added.reshape(2, 1, 1, 6) if len(skip) == 2 else added)
    total += 0 if bias is None else bias
    wanted = _grouped(total, gamma, beta, 2).astype("float32")
    result = compiled(tmp_path, node, groups=2, epsilon=1e-3, activation=0)
    check_close(result, [wanted, total])


WORDS, PLACES = 11, 9
IDS = np.array([[3, 10, 0], [7, 7, 1]], "int32")
SEGMENTS = np.array([[0, 0, 1], [1, 0, 1]], "int32")
MASK = np.array([[1, 1, 0], [1, 0, 2]], "int32")
TABLES = (numbers(WORDS, WIDTH), numbers(PLACES, WIDTH), numbers(2, WIDTH), GAMMA, BETA)
ALL = ("y", "mask_index", "sum")


def embedding(*others: np.ndarray | None, segments: bool = True, ids: np.ndarray = IDS) -> Node:
    tables = list(TABLES)
    if not segments:
        tables[2] = None
    inputs = [ids, SEGMENTS if segments else None, *tables, *others]
    return Node("EmbedLayerNormalization", inputs, (), ALL)


EMBEDDINGS = {
    "plain": embedding(),
    "without segments": embedding(segments=False),
    "masked": embedding(MASK),
    "at positions": embedding(None, np.array([[8, 0, 3], [1, 1, 2]], "int32")),
    "at shared positions": embedding(MASK, np.array([[8, 0, 3]], "int32")),
}


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_embedding(name: str, tmp_path: Path) -> None:
    check(tmp_path, EMBEDDINGS[name], epsilon=1e-5)


@pytest.mark.parametrize("word", [-1, WORDS])
def test_a_word_beyond_the_table_is_an_error(word: int, tmp_path: Path) -> None:
    with pytest.raises(IndexError, match="must be from 0 to 10"):
        compiled(tmp_path, embedding(ids=np.full_like(IDS, word)))


INVALID: dict[str, tuple[Node, dict[str, Any]]] = {
    "2 positions for rows of 3 words": (
        Node("EmbedLayerNormalization", [IDS, None, TABLES[0], TABLES[1][:2], None, GAMMA, BETA]),
        {},
    ),
    "has segments without embeddings": (
        Node("EmbedLayerNormalization", [IDS, SEGMENTS, *TABLES[:2], None, GAMMA, BETA]),
        {},
    ),
    "divides 6 channels into 4 groups": (
        Node("GroupNorm", [numbers(2, 5, 3, 6), numbers(6), numbers(6)]),
        {"groups": 4, "activation": 0},
    ),
    "activation=2, which is neither": (
        Node("GroupNorm", [numbers(2, 5, 3, 6), numbers(6), numbers(6)]),
        {"groups": 2, "activation": 2},
    ),
}


@pytest.mark.parametrize("problem", INVALID)
def test_what_cannot_be_is_refused(problem: str, tmp_path: Path) -> None:
    node, attributes = INVALID[problem]
    with pytest.raises(ModelError, match=problem):
        compiled(tmp_path, node, **attributes)
