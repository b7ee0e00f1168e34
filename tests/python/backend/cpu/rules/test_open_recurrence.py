# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers of open batches and numbers of steps, beside ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import TensorProto, helper

from support.open_networks import Dim, assert_any_shape, save, weight

node = helper.make_node

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
SIZES = [(1, 1), (2, 1), (1, 2), (5, 3), (7, 4), (3, 17), (30, 1), (4, 33)]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("LSTM", {}),
        ("LSTM", {"direction": "bidirectional"}),
        ("GRU", {"linear_before_reset": 1}),
        ("GRU", {"linear_before_reset": 0, "direction": "reverse"}),
        ("RNN", {}),
    ],
)
@pytest.mark.parametrize("hidden", [40, 7])
@pytest.mark.parametrize("ragged", [False, True])
def test_recurrence(
    tmp_path: Path,
    kind: str,
    attributes: dict[str, str | int],
    hidden: int,
    ragged: bool,
    threads: int,
) -> None:
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    width, rows = 12, GATES[kind] * hidden
    lengths = "lengths" if ragged else ""
    inputs: dict[str, list[Dim]] = {"x": ["t", "n", width]}
    inputs |= {"lengths": ["n"]} if ragged else {}
    path = save(
        tmp_path / "m.onnx",
        [node(kind, ["x", "w", "r", "b", lengths], ["y", "h"], hidden_size=hidden, **attributes)],
        inputs,
        ["y", "h"],
        [
            weight("w", directions, rows, width),
            weight("r", directions, rows, hidden),
            weight("b", directions, 2 * rows),
        ],
        dtypes={"lengths": TensorProto.INT32},
    )
    calls = [[(t, n, width), *([(n,)] if ragged else [])] for t, n in SIZES]
    assert_any_shape(path, calls, threads=threads)
