# SPDX-License-Identifier: Apache-2.0
"""Splits of feature maps become slices, each an operator of its own."""

from __future__ import annotations

import pytest
import tvm
from tvm import relax

from support.networks import NATIVE, check_scheduled, conv, few_stages, relax_module
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.rewrite.splits import slice_channels

op = relax.op


def network(axis: int = 1) -> tvm.IRModule:
    """Read two of three parts of a feature map, one of them twice."""

    def body(emit, x):
        parts = emit(op.split(emit(conv(x, 30, padding=1)), [5, 21], axis=axis))
        first, last = (emit(relax.TupleGetItem(parts, i)) for i in (0, 2))
        return relax.Tuple([emit(op.nn.relu(first)), emit(conv(last, 8)), emit(op.exp(last))])

    return relax_module(body, (2, 6, 30, 7))


def kinds(mod: tvm.IRModule) -> list[str]:
    return [op.kind for op in Scheduler.prepare(mod, NATIVE, cost_model=few_stages).graph.operators]


@pytest.mark.parametrize("axis", [1, -3])
def test_parts_along_the_channels_are_slices(axis: int) -> None:
    mod = network(axis)
    assert kinds(mod).count("strided_slice") == 2
    assert "split" not in kinds(mod)
    check_scheduled(mod)


def test_other_splits_stay() -> None:
    mod = network(axis=2)
    assert "split" in kinds(mod)
    check_scheduled(mod)


def test_a_part_of_a_tuple_that_is_written_out() -> None:
    """As TVM writes the results of a batch normalisation that it takes apart."""

    def body(emit, x):
        both = relax.Tuple([emit(conv(x, 8)), emit(op.exp(x))])
        return emit(op.nn.relu(emit(relax.TupleGetItem(both, 1))))

    mod = relax_module(body, (1, 6, 9, 7))
    tvm.ir.assert_structural_equal(slice_channels(mod, mod["main"]), mod["main"])
