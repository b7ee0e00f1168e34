# SPDX-License-Identifier: Apache-2.0
"""Assignments to whole ranges are slices and concatenations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import tvm
from tvm import relax

from support.networks import NATIVE, check_scheduled, few_stages, relax_module
from tvm_ios.compiler.scheduler import Scheduler

op = relax.op
SHAPE = (3, 4, 5)


def grid(*ranges: tuple[int, int]) -> np.ndarray:
    """The indices of all elements of some ranges, in order."""
    axes = np.meshgrid(*(np.arange(*bounds) for bounds in ranges), indexing="ij")
    return np.stack(axes, axis=-1).astype("int64")


def network(indices: np.ndarray, shape: Sequence[int], reduction: str = "update") -> tvm.IRModule:
    def body(emit, x, y):
        at = relax.const(indices, "int64")
        return emit(op.nn.relu(emit(op.scatter_nd(x, at, y, reduction))))

    return relax_module(body, SHAPE, tuple(shape))


# The indices, the shape of what is assigned, and how many slices are kept; None if it stays.
CASES = {
    "all": (grid((0, 3), (0, 4), (0, 5)), SHAPE, 0),
    "the end of one axis": (grid((0, 3), (1, 4), (0, 5)), (3, 3, 5), 1),
    "a corner": (grid((1, 3), (0, 2), (2, 5)), (2, 2, 3), 3),
    "inside": (grid((1, 2), (1, 3), (1, 4)), (1, 2, 3), 6),
    "first axes": (grid((0, 2), (1, 2)), (2, 1, 5), 3),
    "one index": (np.array([[1, 2]]), (1, 5), 4),
    "a list of rows": (np.array([[1], [2]]), (2, 4, 5), 1),
    "in another order": (np.array([[2], [1]]), (2, 4, 5), None),
    "with gaps": (np.array([[0], [2]]), (2, 4, 5), None),
    "a row twice": (np.array([[1], [1]]), (2, 4, 5), None),
}


@pytest.mark.parametrize(("indices", "shape", "slices"), CASES.values(), ids=CASES)
def test_assignments(indices: np.ndarray, shape: Sequence[int], slices: int | None) -> None:
    mod = network(indices, shape)
    graph = Scheduler.prepare(mod, NATIVE, cost_model=few_stages).graph
    kinds = [o.kind for o in graph.operators]
    assert ("scatter_nd" in kinds) == (slices is None)
    assert kinds.count("strided_slice") == (slices or 0)
    if indices.tolist() != [[1], [1]]:  # which of the two rows is left is not said
        check_scheduled(mod)


def test_sums_stay() -> None:
    mod = network(grid((0, 3), (0, 4), (0, 5)), SHAPE, "add")
    graph = Scheduler.prepare(mod, NATIVE, cost_model=few_stages).graph
    assert "scatter_nd" in [o.kind for o in graph.operators]
    check_scheduled(mod)
