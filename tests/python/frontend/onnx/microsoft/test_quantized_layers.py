# SPDX-License-Identifier: Apache-2.0
"""Layers whose weights are 8-bit integers, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.contributed import Node, compiled, numbers
from support.quantized_nodes import check_near, constants_of, integers, scale, scales, zero
from tvm_ios.errors import ModelError

HIDDEN, HEADS = 12, 3
COLUMNS = 3 * HIDDEN


def attention(**given: Any) -> list[Any]:
    """Return the inputs of an attention, some of them given by their names."""
    inputs = {
        "data": integers(2, 5, HIDDEN),
        "weights": integers(HIDDEN, COLUMNS, dtype="int8"),
        "bias": numbers(COLUMNS),
        "scale": scale(0.01),
        "scales": scale(0.004),
        "mask": None,
        "zero": zero(120),
        "zeros": None,
        "past": None,
    }
    return list({**inputs, **given}.values())


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"mask": np.array([3, 5], "int32")},
        {"mask": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], "int32")},
        {"scales": scales(COLUMNS) / 8, "zeros": np.zeros(COLUMNS, "int8")},
        {"weights": integers(HIDDEN, COLUMNS), "zeros": zero(128)},
        {"past": numbers(2, 2, HEADS, 4, HIDDEN // HEADS)},
    ],
)
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention(given: dict[str, Any], unidirectional: int, tmp_path: Path) -> None:
    inputs = attention(**given)
    outputs = ["y", "present"] if "past" in given else ["y"]
    node = Node("QAttention", inputs, constants_of(inputs, 0, 5, 8), outputs)
    check_near(tmp_path, node, num_heads=HEADS, unidirectional=unidirectional)


def test_attention_that_rotates(tmp_path: Path) -> None:
    inputs = attention()
    with pytest.raises(ModelError, match="rotates queries"):
        compiled(
            tmp_path,
            Node("QAttention", inputs, constants_of(inputs, 0)),
            num_heads=HEADS,
            do_rotary=1,
        )


@pytest.mark.parametrize("whole", [True, False])
def test_embeddings(whole: bool, tmp_path: Path) -> None:
    """Without segments and a mask, too."""
    ids = np.array([[0, 19, 3, 7, 3], [2, 2, 1, 0, 5]], "int32")
    inputs: list[Any] = [ids, ids % 2, integers(20, 8), integers(7, 8), integers(2, 8)]
    inputs += [integers(8), integers(8, seed=1), ids % 3, *scales(5), *integers(5, seed=2)]
    inputs[8:] = [np.array(number) for number in inputs[8:]]
    for place in () if whole else (1, 4, 7, 10, 15):
        inputs[place] = None
    node = Node("QEmbedLayerNormalization", inputs, constants_of(inputs, 0, 1, 7), ["y", "counts"])
    check_near(tmp_path, node, steps=0, epsilon=1e-8)


def lstm(directions: int, *gates: int, batch: int = 2) -> list[Any]:
    size, grid = 20, (directions, *gates)
    weights = [integers(directions, rows, size, dtype="int8") for rows in (7, 5)]
    grids = [x for seed in (0, 1) for x in (scales(*grid, seed=seed) / 8, np.zeros(grid, "int8"))]
    biases = numbers(directions, 2 * size)
    return [numbers(6, batch, 7), *weights, biases, None, None, None, None, *grids]


@pytest.mark.parametrize(("directions", "gates"), [(1, ()), (2, ()), (1, (20,)), (2, (20,))])
def test_lstm(directions: int, gates: tuple[int, ...], tmp_path: Path) -> None:
    """The inputs and the states of each step are rounded to 8 bits."""
    inputs = lstm(directions, *gates, batch=1)
    node = Node("DynamicQuantizeLSTM", inputs, constants_of(inputs, 0), ["y", "h", "c"])
    direction = "bidirectional" if directions == 2 else "forward"
    check_near(tmp_path, node, 2e-6, hidden_size=5, direction=direction)


def test_lstm_of_unsigned_weights(tmp_path: Path) -> None:
    inputs = lstm(1, batch=1)
    inputs[1:3] = [integers(1, rows, 20) for rows in (7, 5)]
    inputs[9] = inputs[11] = zero(128).reshape(1)
    node = Node("DynamicQuantizeLSTM", inputs, constants_of(inputs, 0), ["y", "h", "c"])
    check_near(tmp_path, node, 2e-6, hidden_size=5)


def test_lstm_of_several_rows(tmp_path: Path) -> None:
    """ONNX Runtime rounds the states of all rows by one range, and ours by one for each row."""
    inputs = lstm(2, 20, batch=3)
    node = Node("DynamicQuantizeLSTM", inputs, constants_of(inputs, 0), ["y", "h", "c"])
    check_near(tmp_path, node, 0.03, hidden_size=5, direction="bidirectional")


@pytest.mark.parametrize("computed", [True, False])
def test_lstm_that_is_not_rounded(computed: bool, tmp_path: Path) -> None:
    """Its weights are computed, or do not fit into 8 bits without their zero points."""
    inputs = lstm(1, 20)
    if not computed:
        inputs[1:3] = [integers(1, rows, 20) for rows in (7, 5)]
        inputs[9] = inputs[11] = np.zeros((1, 20), "uint8")
    given = (0, 1, 2) if computed else (0,)
    node = Node("DynamicQuantizeLSTM", inputs, constants_of(inputs, *given))
    (found,) = compiled(tmp_path, node, hidden_size=5)
    data, weights, recurrent, biases = inputs[:4]
    weights, recurrent = (
        (w.astype("float32") * s[:, None, :]).transpose(0, 2, 1)
        for w, s in ((weights, inputs[8]), (recurrent, inputs[10]))
    )
    plain = Node("LSTM", [data, weights, recurrent, biases], [1, 2, 3], domain="")
    (wanted,) = compiled(tmp_path, plain, hidden_size=5)
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_scales_of_another_shape(tmp_path: Path) -> None:
    inputs = lstm(1)
    inputs[8] = scales(1, 4)
    with pytest.raises(ModelError, match=r"has scales of \[1, 4\] for \[1, 7, 20\] weights"):
        compiled(
            tmp_path,
            Node("DynamicQuantizeLSTM", inputs, constants_of(inputs, 0)),
            hidden_size=5,
        )
