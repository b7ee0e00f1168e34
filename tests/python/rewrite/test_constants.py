# SPDX-License-Identifier: Apache-2.0
"""Folding of constants by NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax

from tvm_ios.relax_ir.constants import constant_array
from tvm_ios.relax_ir.functions import bindings_of
from tvm_ios.rewrite.constants import fold_constants
from tvm_ios.rewrite.remaining_constants import fold_the_rest

RANDOM = np.random.default_rng(0)
TABLE = RANDOM.standard_normal((2, 3)).astype("float32")
SQUARE = RANDOM.standard_normal((3, 3)).astype("float32")


def _module(compute: Callable) -> tvm.IRModule:
    """``x + compute(constants)`` with the intermediate values bound to variables."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([4, 2, 3], "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value = compute(builder.emit, relax.const(TABLE))
            result = builder.emit_output(builder.emit(relax.op.add(x, value)))
        builder.emit_func_output(result)
    return builder.get()


def _folded(mod: tvm.IRModule) -> list[relax.Expr]:
    mod = tvm.IRModule({"main": fold_constants(mod, mod["main"])})
    mod = relax.transform.DeadCodeElimination(["main"])(relax.transform.CanonicalizeBindings()(mod))
    return list(bindings_of(mod["main"]).values())


CASES = {
    "reshape": (lambda emit, c: emit(relax.op.reshape(c, (1, 2, 3))), TABLE.reshape(1, 2, 3)),
    "expand_dims": (lambda emit, c: emit(relax.op.expand_dims(c, 0)), TABLE[None]),
    "permute_dims": (
        lambda emit, c: emit(
            relax.op.permute_dims(emit(relax.op.reshape(c, (3, 1, 2))), [1, 2, 0])
        ),
        TABLE.reshape(3, 1, 2).transpose(1, 2, 0),
    ),
    "broadcast_to": (
        lambda emit, c: emit(relax.op.broadcast_to(c, (4, 2, 3))), np.broadcast_to(TABLE, (4, 2, 3))
    ),
    "mean": (
        lambda emit, c: emit(
            relax.op.add(emit(relax.op.mean(c, 0, keepdims=True)), emit(relax.op.mean(c, [1, 0])))
        ),
        np.float32(TABLE.mean(0, "float64", keepdims=True)) + np.float32(TABLE.mean(dtype="f8")),
    ),
    "arithmetic": (
        lambda emit, c: emit(
            relax.op.divide(
                emit(relax.op.subtract(emit(relax.op.multiply(c, c)), c)),
                emit(relax.op.sqrt(emit(relax.op.add(c, relax.const(np.float32(9.0)))))),
            )
        ),
        (TABLE * TABLE - TABLE) / np.sqrt(TABLE + np.float32(9.0)),
    ),
    "product": (
        lambda emit, c: emit(
            relax.op.sigmoid(emit(relax.op.matmul(c, relax.const(SQUARE))))
        ),
        np.float32(1 / (1 + np.exp(-np.float64(np.float32(TABLE.astype("f8") @ SQUARE))))),
    ),
    "choice": (
        lambda emit, c: emit(
            relax.op.where(
                emit(relax.op.logical_not(emit(relax.op.isnan(c)))),
                emit(relax.op.nn.relu(c)),
                relax.const(7.0, "float32"),
            )
        ),
        np.maximum(TABLE, 0),
    ),
    "take": (
        lambda emit, c: emit(
            relax.op.take(c, relax.const(np.array([1, 0, 1])), axis=1, mode="clip")
        ),
        TABLE[:, [1, 0, 1]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_constants_are_computed(case: str) -> None:
    compute, expected = CASES[case]
    (only,) = _folded(_module(compute))
    np.testing.assert_array_equal(constant_array(only.args[1]), expected)


def test_what_numpy_may_round_otherwise_is_left() -> None:
    """TVM folds it, and only then lowers the operators of a function."""
    mod = _module(lambda emit, c: emit(relax.op.exp(c)))
    assert len(_folded(mod)) == 2
    folded = fold_the_rest(mod)
    assert not any(
        isinstance(value, relax.Call) and value.op.name == "relax.exp"
        for value in bindings_of(folded["main"]).values()
    )
    nothing = _module(lambda emit, c: c)
    assert fold_the_rest(nothing).same_as(nothing)


def test_integers_are_left() -> None:
    def compute(emit: Callable, c: relax.Expr) -> relax.Expr:
        numbers = relax.const(np.array([7, -7, 3]))
        return emit(relax.op.astype(emit(relax.op.divide(numbers, numbers)), "float32"))

    assert len(_folded(_module(compute))) == 3


def test_what_has_the_shape_of_a_variable_is_folded() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([2, 3], "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            sevens = builder.emit(relax.op.full_like(x, relax.const(7.0, "float32")))
            result = builder.emit_output(builder.emit(relax.op.add(x, sevens)))
        builder.emit_func_output(result)
    folded = relax.transform.CanonicalizeBindings()(fold_the_rest(builder.get()))
    values = bindings_of(folded["main"]).values()
    (added,) = (value for value in values if isinstance(value, relax.Call))
    np.testing.assert_array_equal(constant_array(added.args[1]), np.full((2, 3), 7.0))
