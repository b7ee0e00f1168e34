# SPDX-License-Identifier: Apache-2.0
"""Grids of 8 bits by the range of a tensor, compared with the formulas of DynamicQuantizeLinear."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import tvm
from tvm import relax

from support.networks import NATIVE, TARGETS, compile_plain, isa_of, run_kernel, run_vm
from tvm_ios.backend.cpu.kernels.rows.value_range import grid_kernel
from tvm_ios.ops.dynamic_grid import dynamic_grid
from tvm_ios.rewrite.prepare import prepare
from tvm_ios.transform import InterOperatorSchedule

COUNTS = [1, 15, 16, 1000, 8192, 8193, 30_001]


def expected(data: np.ndarray) -> tuple[np.float32, np.float32]:
    least, largest = min(data.min(), np.float32(0)), max(data.max(), np.float32(0))
    scale = (largest - least) / np.float32(255) if largest > least else np.float32(1)
    return scale, np.rint(np.clip(-least / scale, 0, 255))


def numbers(count: int, low: float = -1.0, high: float = 2.0) -> np.ndarray:
    return np.random.default_rng(count).uniform(low, high, count).astype("float32")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("count", COUNTS)
def test_grids(count: int, target: tvm.target.Target) -> None:
    data = numbers(count)
    kernel = grid_kernel(count, (0, 1), isa_of(target)[0])
    found = [result.item() for result in run_kernel(kernel, [data], target)]
    assert found == [float(number) for number in expected(data)]


@pytest.mark.parametrize("read", [(0,), (1,), (1, 0)])
@pytest.mark.parametrize("count", [100, 20_000])
def test_what_is_read(read: Sequence[int], count: int) -> None:
    data = numbers(count)
    results = run_kernel(grid_kernel(count, read, isa_of(NATIVE)[0]), [data], NATIVE)
    assert [r.item() for r in results] == [float(expected(data)[place]) for place in read]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 17, 20_000])
def test_steps_that_are_no_numbers(place: int, value: float) -> None:
    data = numbers(20_001)
    data[place] = value
    (step,) = run_kernel(grid_kernel(len(data), (0,), isa_of(NATIVE)[0]), [data], NATIVE)
    assert np.isnan(step.item())


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [(0.0, 0.0, (1.0, 0.0)), (1.0, 2.0, None), (-3.0, -1.0, None)],
)
def test_ranges_on_one_side(low: float, high: float, wanted: tuple[float, float] | None) -> None:
    """They are extended to 0; the step of zeros is 1."""
    data = numbers(40, low, high)
    found = [
        r.item() for r in run_kernel(grid_kernel(40, (0, 1), isa_of(NATIVE)[0]), [data], NATIVE)
    ]
    assert found == list(wanted or map(float, expected(data)))


def network(shape: tuple[int, ...]) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            found = dynamic_grid(builder, x, shape)
            fields = [builder.emit(relax.TupleGetItem(found, place)) for place in range(2)]
            output = builder.emit_output(relax.Tuple(fields))
        builder.emit_func_output(output)
    return builder.get()


@pytest.mark.parametrize("kernel", [True, False])
def test_networks_of_numbers_that_are_none(kernel: bool) -> None:
    mod, data = network((3, 5)), numbers(15).reshape(3, 5)
    data[1, 2] = np.nan
    mod = InterOperatorSchedule(NATIVE, search=False)(mod) if kernel else mod
    assert np.isnan(run_vm(compile_plain(mod), [data])[0])


@pytest.mark.parametrize("shape", [(), (3, 5), (2, 7, 1000)])
def test_networks(shape: tuple[int, ...]) -> None:
    """By the kernel, by the definition, and by reductions."""
    data = numbers(int(np.prod(shape))).reshape(shape)
    mod = network(shape)
    schedule = InterOperatorSchedule(NATIVE, search=False)
    scheduled = compile_plain(schedule(mod))
    assert [op.kind for op in schedule.schedule.operators] == ["dynamic_grid"]
    reduced = compile_plain(prepare(mod, recurrences=False))
    for compiled in (scheduled, compile_plain(mod), reduced):
        found = [result.item() for result in run_vm(compiled, [data])]
        np.testing.assert_allclose(found, expected(data), rtol=1e-7)
