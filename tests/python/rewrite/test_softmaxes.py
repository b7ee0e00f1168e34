# SPDX-License-Identifier: Apache-2.0
"""Masks of attentions, which replace numbers before a softmax."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.exported import Exported

BATCH, HEADS, ROWS, DEPTH = 2, 3, 7, 4
SHAPES = dict.fromkeys("abc", (BATCH, ROWS, HEADS, DEPTH))
MASK = np.array([[1, 1, 1, 1, 1, 0, 0], [1, 0, 1, 1, 0, 0, 1]])
CONSTANTS = {
    "lowest": np.float32(-3.4e38),
    "infinity": np.float32(-np.inf),
    "low": np.float32(-1e9),
    "zero": np.array(0),
    "axes": np.array([1, 2]),
    "scores": np.array([BATCH, HEADS, ROWS, ROWS]),
    "causal": np.tril(np.ones((ROWS, ROWS), bool)),
}
SCORES = (
    "q = Transpose<perm = [0, 2, 1, 3]>(a) k = Transpose<perm = [0, 2, 3, 1]>(b) "
    "v = Transpose<perm = [0, 2, 1, 3]>(c) s = MatMul(q, k) "
)
HIDDEN = "h = Equal(mask, zero) u = Unsqueeze(h, axes) e = Expand(u, scores) "
REST = "p = Softmax(w) r = MatMul(p, v) y = Transpose<perm = [0, 2, 1, 3]>(r)"


def network(nodes: str) -> Exported:
    return Exported(nodes, {**SHAPES, "mask": MASK.shape}, CONSTANTS, {"mask": MASK})


MASKED = {
    "keys that are hidden": HIDDEN + "w = Where(e, lowest, s) ",
    "keys that are shown": HIDDEN + "n = Not(e) w = Where(n, s, lowest) ",
    "infinity": HIDDEN + "w = Where(u, infinity, s) ",
    "later keys": HIDDEN + "w = Where(causal, s, lowest) ",
}


@pytest.mark.parametrize("name", MASKED)
def test_a_mask_is_a_bias_of_an_attention(name: str, tmp_path: Path) -> None:
    exported = network(SCORES + MASKED[name] + REST)
    operators = exported.operators(tmp_path)
    assert "nn.attention_bias" in operators
    assert "matmul" not in operators
    exported.check(tmp_path)


STAYING = {
    "a number that scores may reach": HIDDEN + "w = Where(e, low, s) ",
    "scores of which some are chosen": HIDDEN + "o = Neg(s) w = Where(e, o, s) ",
}


@pytest.mark.parametrize("name", STAYING)
def test_other_choices_stay(name: str, tmp_path: Path) -> None:
    exported = network(SCORES + STAYING[name] + REST)
    assert exported.operators(tmp_path).count("matmul") == 2
    exported.check(tmp_path)


def test_rows_of_which_all_is_hidden(tmp_path: Path) -> None:
    """All weights are the same then."""
    given = {"mask": np.zeros_like(MASK)}
    nodes = SCORES + MASKED["keys that are hidden"] + REST
    Exported(nodes, {**SHAPES, "mask": MASK.shape}, CONSTANTS, given).check(tmp_path)


def test_numbers_that_are_replaced_and_read_stay(tmp_path: Path) -> None:
    """The number itself is an answer."""
    nodes = SCORES + MASKED["keys that are hidden"] + "p = Softmax(w) y = Add(p, w)"
    network(nodes).check(tmp_path)
