# SPDX-License-Identifier: Apache-2.0
"""Arithmetic by constants moves before the division of a product's columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.exported import Exported

RNG = np.random.default_rng(0)
ROWS, HEADS, DEPTH = 5, 3, 4


def exported(nodes: str, *value: int) -> Exported:
    """Return a network that computes ``y`` of the heads ``h`` and a constant ``c``."""
    constants = {
        "w": RNG.standard_normal((6, HEADS * DEPTH), "float32"),
        "c": RNG.standard_normal(value, "float32"),
        "heads": np.array([2, ROWS, HEADS, DEPTH]),
        "merged": np.array([2 * ROWS, HEADS, DEPTH]),
    }
    product = "m = MatMul(x, w) h = Reshape(m, heads) "
    return Exported(product + nodes, {"x": (2, ROWS, 6)}, constants)


MOVING = {
    "a bias of each column": ("y = Add(h, c)", (HEADS, DEPTH)),
    "a factor of each head": ("y = Mul(h, c)", (HEADS, 1)),
    "a difference from each column": ("y = Sub(h, c)", (1, 1, HEADS, DEPTH)),
    "one number": ("y = Add(h, c)", ()),
    "a chain": ("a = Add(h, c) b = Mul(a, c) y = Sub(b, c)", (DEPTH,)),
}


@pytest.mark.parametrize("name", MOVING)
def test_arithmetic_of_columns_moves(name: str, tmp_path: Path) -> None:
    nodes, shape = MOVING[name]
    network = exported(nodes, *shape)
    assert network.operators(tmp_path)[-1] == "reshape"
    network.check(tmp_path)


STAYING = {
    "rows that differ": ("y = Add(h, c)", (ROWS, 1, 1)),
    "images that differ": ("y = Add(h, c)", (2, 1, 1, 1)),
    "more axes": ("y = Add(h, c)", (2, 1, 1, 1, 1)),
    "merged rows": ("g = Reshape(m, merged) y = Add(g, c)", (HEADS, DEPTH)),
    "two tensors": ("y = Add(h, h)", ()),
}


@pytest.mark.parametrize("name", STAYING)
def test_other_arithmetic_stays(name: str, tmp_path: Path) -> None:
    nodes, shape = STAYING[name]
    network = exported(nodes, *shape)
    assert network.operators(tmp_path)[-1] == "add"
    network.check(tmp_path)
