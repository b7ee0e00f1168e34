# SPDX-License-Identifier: Apache-2.0
"""Reductions: which kernel computes them, and of all elements of a tensor."""

from __future__ import annotations

import pytest
from tvm import relax

from support.networks import NATIVE, check_scheduled, relax_module
from tvm_ios.compiler.scheduler import Scheduler

op = relax.op


def keys_of(mod) -> list:
    lowered = Scheduler.prepare(mod, NATIVE).stage_builder.lowered
    return [str(i.kernel.key) for i in lowered.implementations if i is not None]


@pytest.mark.parametrize("kind", ["sum", "mean", "variance", "max", "min"])
@pytest.mark.parametrize("shape", [(7, 3, 5), (3, 401, 331), (11,), (500000,)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_of_all_elements(kind: str, shape: tuple[int, ...], keepdims: bool) -> None:
    """Whose result other operations join, and read."""

    def body(emit, x):
        total = emit(getattr(op, kind)(x, keepdims=keepdims))
        root = emit(op.sqrt(emit(op.abs(total))))
        return relax.Tuple([root, emit(op.multiply(x, root))])

    mod = relax_module(body, shape)
    assert not any("generic" in key for key in keys_of(mod))
    check_scheduled(mod)


def test_long_rows_are_divided() -> None:
    def body(emit, x):
        return emit(op.sum(x, axis=[1]))

    assert "reduce in pieces" in keys_of(relax_module(body, (2, 200000)))[0]
    assert "reduce in pieces" not in keys_of(relax_module(body, (200, 2000)))[0]
