# SPDX-License-Identifier: Apache-2.0
"""Products with rows of a single 1 become gathers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tvm import relax

from support.exported import Exported
from support.networks import check_scheduled, relax_module
from tvm_ios.rewrite.prepare import prepare

PLACES, WIDTH = 5, 8
RNG = np.random.default_rng(0)
CONSTANTS = {
    "table": RNG.standard_normal((PLACES, WIDTH), "float32"),
    "depth": np.array(PLACES),
    "values": np.array([0, 1], "float32"),
    "range": np.arange(PLACES),
    "spread": np.broadcast_to(np.arange(PLACES), (2, 7, PLACES)),
    "other": np.arange(PLACES)[::-1],
    "last": np.array([-1]),
    "flat": np.array([-1]),
    "rows": np.array([-1, PLACES]),
    "back": np.array([2, 7, WIDTH]),
    "each": np.array([2, 7, PLACES]),
    "one": np.float32(1),
    "zero": np.float32(0),
    "two": np.float32(2),
}
IN_RANGE = np.arange(14).reshape(2, 7) % PLACES
OUT_OF_RANGE = np.array([[0, 4, -1, 5, -5, 3, -6], [2**62, -(2**62), 100, 1, -4, 2, -(2**31)]])

EQUAL = "u = Unsqueeze(ids, last) e = Equal(u, range) "
HOT = EQUAL + "h = Cast<to = 1>(e) "
TAKEN = {
    "an operator": "h = OneHot(ids, depth, values) y = MatMul(h, table)",
    "an operator of one row": "f = Reshape(ids, flat) h = OneHot(f, depth, values) "
    "m = MatMul(h, table) y = Reshape(m, back)",
    "a comparison": HOT + "y = MatMul(h, table)",
    "a comparison of the other order": HOT.replace("(u, range)", "(range, u)")
    + "y = MatMul(h, table)",
    "a comparison of what is spread": HOT.replace("e =", "s = Expand(u, each) e =").replace(
        "(u, range)", "(s, spread)"
    )
    + "y = MatMul(h, table)",
    "a choice": EQUAL + "h = Where(e, one, zero) y = MatMul(h, table)",
    "rows that are merged": HOT + "r = Reshape(h, rows) m = Gemm(r, table) y = Reshape(m, back)",
}


def network(nodes: str, ids: np.ndarray, **constants: np.ndarray) -> Exported:
    return Exported(nodes, {"ids": (2, 7)}, CONSTANTS | constants, {"ids": ids})


@pytest.mark.parametrize("name", TAKEN)
def test_chosen_rows_are_taken(name: str, tmp_path: Path) -> None:
    """What is out of range is a row of zeros."""
    exported = network(TAKEN[name], OUT_OF_RANGE)
    operators = exported.operators(tmp_path)
    assert operators.count("take") == 1
    assert not {"matmul", "equal"} & set(operators)
    exported.check(tmp_path)


def test_indices_in_range(tmp_path: Path) -> None:
    network(TAKEN["a comparison"], IN_RANGE).check(tmp_path)


LEFT = {
    "other numbers": HOT.replace("range", "other") + "y = MatMul(h, table)",
    "another number than 1": EQUAL + "h = Where(e, two, zero) y = MatMul(h, table)",
    "other places than a single one": EQUAL + "h = Where(e, zero, one) y = MatMul(h, table)",
}


@pytest.mark.parametrize("name", LEFT)
def test_other_products_stay(name: str, tmp_path: Path) -> None:
    exported = network(LEFT[name], IN_RANGE)
    assert "take" not in exported.operators(tmp_path)
    exported.check(tmp_path)


def test_tables_that_are_not_finite_stay(tmp_path: Path) -> None:
    """Their products with zeros are NaN."""
    table = CONSTANTS["table"].copy()
    table[1, 2] = np.inf
    exported = network(TAKEN["a comparison"], IN_RANGE, table=table)
    assert "take" not in exported.operators(tmp_path)


@pytest.mark.parametrize(("count", "taken"), [(126, True), (127, False), (128, False)])
def test_bytes_that_no_longer_count_beyond_the_places(count: int, taken: bool) -> None:
    """One more than the last place is a row of zeros, and must be a number of the type."""
    table = relax.const(RNG.standard_normal((count, WIDTH)).astype("float32"))

    def body(emit, x):
        ids = emit(relax.op.expand_dims(emit(relax.op.astype(x, "int8")), -1))
        hot = emit(relax.op.equal(ids, relax.const(np.arange(count, dtype="int8"))))
        return emit(relax.op.matmul(emit(relax.op.astype(hot, "float32")), table))

    module = prepare(relax_module(body, (2, 7)))
    assert ("R.take" in str(module)) == taken
    check_scheduled(relax_module(body, (2, 7)))
