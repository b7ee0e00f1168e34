# SPDX-License-Identifier: Apache-2.0
"""The sizes by which a batch is covered, and the axes in which signatures differ."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tvm_ios_runtime import TensorInfo
from tvm_ios_runtime.dispatch import Dispatcher, Part, cover
from tvm_ios_runtime.signatures import Axes, Signature

_COSTS = st.dictionaries(st.integers(0, 9), st.integers(1, 60), min_size=1, max_size=4).filter(any)


@functools.cache
def _cheapest(rows: int, costs: frozenset[tuple[int, int]]) -> int:
    """The least cost of a cover, by exhaustion."""
    if rows <= 0:
        return 0
    return min(cost + _cheapest(rows - size, costs) for size, cost in costs if size)


@example(3, {0: 1, 2: 5})  # no rows cover none, however little that costs
@example(9, {4: 4, 5: 6})  # the size that costs least a row is worse as often as it goes
@given(st.integers(1, 200), _COSTS)
def test_a_cover_costs_least(rows: int, costs: dict[int, int]) -> None:
    choices = [*costs.items()]
    chosen = [choices[i] for i in cover(rows, choices)]
    assert sum(size for size, _ in chosen) >= rows
    assert sum(cost for _, cost in chosen) == _cheapest(rows, frozenset(choices))
    sizes = [size for size, _ in chosen]
    assert sizes == sorted(sizes, reverse=True)


def test_a_huge_batch_is_covered_at_once() -> None:
    assert len(cover(10**9, [(1, 1.0), (1000, 900.0)])) == 10**6


def signature(batch: int, length: int, seconds: float | None = None) -> Signature:
    inputs = (
        TensorInfo("ids", (batch, length), "int64"),
        TensorInfo("table", (7, 3), "float32"),
    )
    outputs = (TensorInfo("y", (batch, length, 3), "float32"),)
    return Signature(f"f_{batch}_{length}", inputs, outputs, seconds)


def arrays(batch: int, length: int) -> list[np.ndarray]:
    return [np.arange(batch * length).reshape(batch, length), np.ones((7, 3), "float32")]


def test_axes_are_dimensions_that_vary_together() -> None:
    axes = Axes.of([signature(1, 8), signature(4, 8), signature(1, 32)])
    assert [axis.sizes for axis in axes.axes] == [(1, 4, 1), (8, 8, 32)]
    assert [axis.outputs for axis in axes.axes] == [{(0, 0)}, {(0, 1)}]
    assert axes.batch == 0
    assert axes.complete


def test_an_output_that_varies_by_itself_is_in_no_axis() -> None:
    odd = [
        Signature("f", (TensorInfo("x", (n,), "float32"),), (TensorInfo("y", (m,), "float32"),))
        for n, m in ((1, 2), (4, 8))
    ]
    axes = Axes.of(odd)
    assert not axes.complete
    assert axes.batch is None


def dispatcher(splits: bool = True, pads: frozenset[int] = frozenset({1})) -> Dispatcher:
    signatures = [signature(1, 8, 1.0), signature(4, 8, 2.5), signature(1, 32, 3.0)]
    return Dispatcher(signatures, Axes.of(signatures), splits, pads)


def test_parts_take_the_least_measured_time() -> None:
    assert dispatcher().plan(arrays(3, 8)).parts == (Part(1, 0, 3),)  # 2.5 s; by ones 3 s
    assert dispatcher().plan(arrays(2, 5)).parts == (Part(0, 0, 1), Part(0, 1, 2))
    assert dispatcher().plan(arrays(2, 9)).parts == (Part(2, 0, 1), Part(2, 1, 2))


def test_a_function_of_no_rows_computes_none_but_its_own() -> None:
    signatures = [signature(0, 8), signature(4, 8), signature(4, 32), signature(0, 64)]
    served = Dispatcher(signatures, Axes.of(signatures), True, frozenset({1}))
    assert served.exact(arrays(0, 8)) == 0
    assert served.plan(arrays(6, 8)).parts == (Part(1, 0, 4), Part(1, 4, 6))
    with pytest.raises(ValueError, match="The model takes"):
        served.plan(arrays(6, 40))
    single = [signature(0, 8), signature(1, 8), signature(4, 8)]
    served = Dispatcher(single, Axes.of(single), True, frozenset())
    assert served.plan(arrays(4, 8)).parts == (Part(2, 0, 4),)


def test_each_part_gets_its_rows_and_zeros() -> None:
    seen = []

    def call(number: int, inputs: list[np.ndarray]) -> list[np.ndarray]:
        seen.append(inputs[0].shape)
        assert inputs[1].all()
        assert not inputs[0][:, 5:].any()
        return [np.repeat(inputs[0][:, :, None], 3, 2).astype("float32")]

    given = arrays(6, 5)
    (result,) = dispatcher().run(given, call)
    assert seen == [(4, 8), (1, 8), (1, 8)]
    np.testing.assert_array_equal(result, np.repeat(given[0][:, :, None], 3, 2))


@pytest.mark.parametrize(
    ("splits", "pads", "batch", "length"),
    [(False, {1}, 3, 8), (True, set(), 4, 7), (True, {1}, 1, 33), (True, {1}, 0, 8)],
)
def test_what_is_not_allowed_is_refused(
    splits: bool, pads: set[int], batch: int, length: int
) -> None:
    with pytest.raises(ValueError, match=r"The model takes ids int64\[1, 8\], table"):
        dispatcher(splits, frozenset(pads)).plan(arrays(batch, length))


def test_sizes_that_disagree_are_refused() -> None:
    signatures = [
        Signature("f", tuple(TensorInfo(name, (n, 2), "float32") for name in "ab"), ())
        for n in (1, 4)
    ]
    served = Dispatcher(signatures, Axes.of(signatures), True, frozenset())
    with pytest.raises(ValueError, match="got"):
        served.plan([np.ones((2, 2), "float32"), np.ones((3, 2), "float32")])
