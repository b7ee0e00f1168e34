# SPDX-License-Identifier: Apache-2.0
"""Orders of numbers among which there are some that are none."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

import tvm_ios
from support.networks import relax_module

op = relax.op
ODD = [np.nan, -np.nan, np.inf, -np.inf, -0.0, 0.0, 1, 2, -3, 1e-45]


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_nan_is_the_largest(dtype: str, axis: int) -> None:
    x = np.random.default_rng(0).choice(ODD, (3, 7, 5)).astype(dtype)

    def body(emit, data):
        both = emit(op.topk(data, 2, axis, "both", True, "int64"))
        results = [
            op.sort(data, axis),
            op.argsort(data, axis, False, "int64"),
            op.topk(data, 3, axis, "values", False),
            op.topk(data, 3, axis, "indices", False, "int64"),
            relax.TupleGetItem(both, 0),
            relax.TupleGetItem(both, 1),
        ]
        return relax.Tuple([emit(result) for result in results])

    mod = relax_module(body, relax.TensorType(x.shape, dtype))
    up, places, least, least_places, most, most_places = tvm_ios.compile(
        mod, search=False, threads=1
    )(x)
    order = np.argsort(x, axis, kind="stable")  # NumPy has NaN last
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(up, np.take_along_axis(x, order, axis))
    np.testing.assert_array_equal(least_places, order.take(range(3), axis))
    np.testing.assert_array_equal(least, np.take_along_axis(x, least_places, axis))
    downwards = np.lexsort((-x, ~np.isnan(x)), axis)  # the first NaN first
    expected = np.take_along_axis(x, downwards.take(range(2), axis), axis)
    np.testing.assert_array_equal(most, expected)
    np.testing.assert_array_equal(most, np.take_along_axis(x, most_places, axis))
