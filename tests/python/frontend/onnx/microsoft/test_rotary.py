# SPDX-License-Identifier: Apache-2.0
"""Rotation of heads by ONNX Runtime's own operator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.contributed import Node, check, compiled, numbers
from tvm_ios.errors import ModelError

BATCH, ROWS, HEADS, DEPTH, PLACES = 2, 5, 3, 8, 11
POSITIONS = np.random.default_rng(0).integers(0, PLACES, (BATCH, ROWS))
IMAGES, LINES = numbers(BATCH, HEADS, ROWS, DEPTH), numbers(BATCH, ROWS, HEADS * DEPTH)


def rotating(
    data: np.ndarray,
    positions: np.ndarray = POSITIONS,
    columns: int = DEPTH,
    dtype: str = "float32",
) -> Node:
    angles = 3 * numbers(PLACES, columns // 2)
    tables = [table.astype(dtype) for table in (np.cos(angles), np.sin(angles))]
    return Node("RotaryEmbedding", [data.astype(dtype), positions, *tables])


PART = {"num_heads": HEADS, "rotary_embedding_dim": DEPTH // 2}
CASES: dict[str, tuple[Node, dict[str, Any]]] = {
    "images": (rotating(IMAGES), {}),
    "images of 16 bits": (rotating(IMAGES, dtype="float16"), {"interleaved": 1}),
    "lines": (rotating(LINES), {"interleaved": 1}),
    "part of lines": (rotating(LINES, columns=DEPTH // 2), PART),
    "interleaved part of lines": (
        rotating(LINES, columns=DEPTH // 2),
        {**PART, "interleaved": 1},
    ),
    "from a position on": (rotating(IMAGES, np.array([3])), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_rotation(name: str, tmp_path: Path) -> None:
    node, attributes = CASES[name]
    check(tmp_path, node, **attributes)


INVALID = {
    "has scale=2.0": (rotating(IMAGES), {"scale": 2.0}),
    "sequences of several lengths": (rotating(LINES), {"is_packed_batching": 1}),
    "rotates 8 columns by angles of 4 columns": (rotating(IMAGES, columns=4), {}),
    r"positions of \[1, 5\]; it must be of \[2, 5\]": (rotating(IMAGES, POSITIONS[:1]), {}),
    "must have 4 axes, or 3 and num_heads": (
        rotating(LINES, columns=4),
        {"rotary_embedding_dim": 4},
    ),
}


@pytest.mark.parametrize("problem", INVALID)
def test_what_cannot_be_is_refused(problem: str, tmp_path: Path) -> None:
    node, attributes = INVALID[problem]
    with pytest.raises(ModelError, match=problem):
        compiled(tmp_path, node, **attributes)


@pytest.mark.parametrize("position", [-1, PLACES - ROWS + 1])
def test_a_position_beyond_the_table_is_an_error(position: int, tmp_path: Path) -> None:
    with pytest.raises(IndexError, match="must be from 0 to 10"):
        compiled(tmp_path, rotating(IMAGES, np.array([position])))
