# SPDX-License-Identifier: Apache-2.0
"""Broadcasts move behind what is computed element by element."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.exported import Exported

CONSTANTS = {
    "whole": np.array([2, 3, 5, 7]),
    "rows": np.array([2, 5, 7]),
    "second": np.array([1]),
    "ones": np.ones((2, 5, 1), "float32"),
    "twos": np.full((2, 5, 1), 2, "float32"),
    "one": np.float32(1),
    "factors": np.linspace(-1, 1, 5, dtype="float32").reshape(5, 1),
}
SHAPES = {"x": (2, 3, 5, 7), "m": (2, 1, 1, 7), "r": (2, 1, 7)}


def network(nodes: str) -> Exported:
    return Exported(nodes, SHAPES, CONSTANTS)


NONE_LEFT = {
    "a broadcast that a sum does": "e = Expand(m, whole) y = Add(x, e)",
    "arithmetic of a broadcast": "e = Expand(m, whole) s = Sub(one, e) t = Tanh(s) y = Mul(t, x)",
    "an axis that is added": "e = Expand(r, rows) u = Unsqueeze(e, second) y = Add(x, u)",
    "a choice": "e = Expand(m, whole) b = Cast<to = 9>(e) y = Where(b, x, e)",
    "another broadcast": "e = Expand(m, whole) f = Expand(e, whole) y = Mul(f, x)",
    "factors of rows": "e = Expand(m, whole) f = Mul(e, factors) y = Add(f, x)",
}


@pytest.mark.parametrize("name", NONE_LEFT)
def test_nothing_is_broadcast_by_itself(name: str, tmp_path: Path) -> None:
    exported = network(NONE_LEFT[name])
    assert "broadcast_to" not in exported.operators(tmp_path)
    exported.check(tmp_path)


BY_ONES = "e = Mul(ones, r) u = Unsqueeze(e, second) y = Add(u, x)"


def test_products_by_ones_are_broadcasts(tmp_path: Path) -> None:
    exported = network(BY_ONES)
    assert "multiply" not in exported.operators(tmp_path)
    exported.check(tmp_path)


def test_a_mask_of_all_is_a_broadcast(tmp_path: Path) -> None:
    """As PyTorch exports a mask that is not causal."""
    nodes = "b = Cast<to = 9>(m) a = And(all, b) y = Where(a, x, one)"
    exported = Exported(nodes, SHAPES, CONSTANTS | {"all": np.ones((1, 1, 5, 7), bool)})
    assert "logical_and" not in exported.operators(tmp_path)
    exported.check(tmp_path)


LEFT = {
    "a result": "e = Expand(m, whole) n = Neg(e) y = Add(n, one)",
    "rows of a product": "e = Expand(m, whole) t = Transpose<perm = [0, 1, 3, 2]>(x) "
    "y = MatMul(e, t)",
    "a sum": "e = Expand(m, whole) s = ReduceSum<keepdims = 0>(e, second) y = Neg(s)",
    "two readers": "e = Expand(m, whole) n = Exp(e) t = ReduceMax(n) y = Sub(n, t)",
}


@pytest.mark.parametrize("name", LEFT)
def test_what_needs_all_elements(name: str, tmp_path: Path) -> None:
    exported = network(LEFT[name])
    assert exported.operators(tmp_path).count("broadcast_to") == 1
    exported.check(tmp_path)


def test_other_numbers_than_ones_are_multiplied_by(tmp_path: Path) -> None:
    network(BY_ONES.replace("ones", "twos")).check(tmp_path)
