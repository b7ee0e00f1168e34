# SPDX-License-Identifier: Apache-2.0
"""What is taken at constant indices that are neighbours is a slice."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from support.networks import NATIVE, check_scheduled, few_stages, relax_module
from tvm_ios.compiler.scheduler import Scheduler

op = relax.op


def network(indices: object, axis: int, dtype: str = "int64") -> tvm.IRModule:
    def body(emit, x):
        at = relax.const(np.array(indices, dtype), dtype)
        return emit(op.nn.relu(emit(op.take(x, at, axis=axis))))

    return relax_module(body, (3, 6, 5))


# The indices, the axis, and how many slices replace them; None if none do.
CASES = {
    "one": (2, 0, 1),
    "one of the last axis": (0, -1, 1),
    "neighbours": ([1, 2, 3], 1, 1),
    "a roll": ([4, 5, 0, 1, 2, 3], 1, 2),
    "the same twice": ([2, 2], 1, 1),
    "every second": ([0, 2, 4], 2, None),
    "backwards": ([2, 1, 0], 0, None),
    "in two dimensions": ([[0, 1], [1, 2]], 0, None),
}


@pytest.mark.parametrize(("indices", "axis", "count"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_takes(indices: object, axis: int, count: int | None, dtype: str) -> None:
    mod = network(indices, axis, dtype)
    graph = Scheduler.prepare(mod, NATIVE, cost_model=few_stages).graph
    kinds = [o.kind for o in graph.operators]
    assert ("take" in kinds) == (count is None)
    assert kinds.count("strided_slice") == (count or 0)
    check_scheduled(mod)


def test_all_operators_have_kernels() -> None:
    """A single index did not: it separated the operators before and after it."""
    scheduler = Scheduler.prepare(network(1, 0), NATIVE, cost_model=few_stages)
    assert not scheduler.stage_builder.lowered.opaque
