# SPDX-License-Identifier: Apache-2.0
"""Operators that ONNX has by now, in the domain of ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.contributed import Node, check, compiled, numbers
from tvm_ios.errors import ModelError

DATA = numbers(3, 5)


def index(*values: Any) -> np.ndarray:
    return np.array(values, "int64")


CASES: dict[str, tuple[Node, dict[str, Any]]] = {
    "new axis": (Node("ExpandDims", [DATA, np.array(-2, "int32")], (1,)), {}),
    "elements": (Node("GatherND", [DATA, index([0, 3], [-1, -2])]), {}),
    "padding": (
        Node("Pad", [DATA, index([0, 1, 1, 2]), np.array([9], "float32")], (1, 2)),
        {},
    ),
    "cropping": (Node("Pad", [DATA, index(0, -1, 1, 0)], (1,)), {"mode": "edge"}),
    "steps of 1": (Node("Range", [np.float32(1.5), np.float32(4)], (0, 1)), {}),
    "steps": (Node("Range", [index(7), index(1), index(-2)], (0, 1, 2)), {}),
    "triangle": (Node("Trilu", [DATA, np.array(1)]), {"upper": 0}),
    "grid": (
        Node("GridSample", [numbers(2, 3, 5, 4), numbers(2, 3, 6, 2) / 2]),
        {"padding_mode": "border"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_alias(name: str, tmp_path: Path) -> None:
    node, attributes = CASES[name]
    check(tmp_path, node, **attributes)


def test_volumes_are_not_sampled(tmp_path: Path) -> None:
    node = Node("GridSample", [numbers(1, 2, 3, 4, 5), numbers(1, 2, 2, 2, 3)])
    with pytest.raises(ModelError, match="it must have 4 axes"):
        compiled(tmp_path, node)
