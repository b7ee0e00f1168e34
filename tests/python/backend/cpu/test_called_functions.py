# SPDX-License-Identifier: Apache-2.0
"""TIR functions that a module calls, as TVM's importers emit them, and what TVM lowers them to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax, tirx, topi

import tvm_ios
from support.networks import NATIVE
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.graph.extract import extract
from tvm_ios.lowering.legalize import tir_of
from tvm_ios.lowering.no_rule import NoRule

SHAPE = (2, 3, 4, 5)
REPEATS = (7, 6, 4, 2)
X = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")


def _module(compute: Callable[[relax.BlockBuilder, relax.Var], relax.Expr]) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(compute(builder, x))
        builder.emit_func_output(result)
    return builder.get()


def _tiled(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
    return builder.emit_te(topi.tile, x, REPEATS)


def test_a_called_function_is_a_kernel() -> None:
    scheduler = Scheduler.prepare(_module(_tiled), NATIVE)
    (implementation,) = scheduler.stage_builder.lowered.implementations
    assert implementation is not None
    assert implementation.kernel.num_tiles > 1, "workers share it"
    emitted = scheduler.emit(scheduler.unsearched())
    assert not [f for f in emitted.functions.values() if isinstance(f, tirx.PrimFunc)]


@pytest.mark.parametrize("threads", [1, 2])
def test_it_computes_what_it_says(threads: int) -> None:
    """LLVM miscompiles TVM's own lowering for AVX-512, whose indices have 64 bits."""
    result = tvm_ios.compile(_module(_tiled), search=False, threads=threads)(X)
    np.testing.assert_array_equal(result, np.tile(X, REPEATS))


def test_a_function_without_an_operand_is_left_to_tvm() -> None:
    """The shape of an operand alone counts, so that TVM's function does not take it."""

    mod = _module(lambda b, x: b.emit(relax.op.full_like(x, relax.const(3.0, "float32"))))
    operator = extract(mod).operators[0]
    assert operator.kind == "full_like"
    with pytest.raises(NoRule):
        tir_of(operator)
