# SPDX-License-Identifier: Apache-2.0
"""Means of integers, which TVM's own lowering gives another type."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

import tvm_ios
from support.networks import relax_module

op = relax.op


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize(("axis", "keepdims"), [(None, False), ([1], True), ([-1, 0], False)])
def test_the_mean_of_integers_has_their_type(
    dtype: str, axis: list[int] | None, keepdims: bool
) -> None:
    """It is rounded towards zero, as ONNX Runtime does."""

    def body(emit, x):
        return emit(op.add(emit(op.mean(x, axis, keepdims)), relax.const(1, dtype)))

    mod = relax_module(body, relax.TensorType((2, 3, 5), dtype))
    data = np.random.default_rng(4).integers(-99, 99, (2, 3, 5)).astype(dtype)
    actual = tvm_ios.compile(mod, search=False, threads=1)(data)
    expected = data.mean(None if axis is None else tuple(axis), keepdims=keepdims)
    assert actual.dtype == dtype
    np.testing.assert_array_equal(actual, np.trunc(expected) + 1)


def test_the_mean_of_no_integers_is_zero() -> None:
    def body(emit, x, y):
        return emit(op.add(emit(op.mean(x, [0])), y))

    mod = relax_module(body, *(relax.TensorType(shape, "int32") for shape in ((0, 3), (3,))))
    addend = np.array([5, -6, 7], "int32")
    actual = tvm_ios.compile(mod, search=False, threads=1)(np.zeros((0, 3), "int32"), addend)
    np.testing.assert_array_equal(actual, addend)
