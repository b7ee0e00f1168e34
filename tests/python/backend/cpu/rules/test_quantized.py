# SPDX-License-Identifier: Apache-2.0
"""Quantised networks multiply bytes, and their answers are those of the definition in float32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

import tvm_ios
from support.networks import (
    NATIVE,
    UNOPTIMISED,
    few_stages,
    random_arguments,
    relax_module,
    run_vm,
)
from support.quantized import onnx_model, rounded
from tvm_ios import ScheduleError
from tvm_ios.backend.cpu.core import core_of
from tvm_ios.backend.cpu.isa.int8 import Grid
from tvm_ios.backend.cpu.rules import quantized
from tvm_ios.backend.cpu.rules.quantized import grid_of, integers_of
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.ops.epilogue import Epilogue, Operand, Step
from tvm_ios.options import Options
from tvm_ios.transform import InterOperatorSchedule

op = relax.op
SIGNED, POSITIVE = (0.05, 121), (0.1, 0)


@pytest.fixture(autouse=True)
def _on_any_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_IOS_EMULATE_INSTRUCTIONS", "1")
    # Some processors multiply bytes, but float32 may be faster.
    monkeypatch.setattr(quantized, "faster_in_bytes", lambda *_: True)


def weights(*shape: int, seed: int = 0) -> relax.Expr:
    """Weights as they are after an exporter's quantisation, each channel on a grid of its own."""
    random = np.random.default_rng(seed)
    scales = random.uniform(0.002, 0.01, (shape[0], 1, 1, 1)).astype("float32")
    return relax.const(random.integers(-127, 128, shape).astype("float32") * scales)


def conv(x: relax.Expr, channels: int, kernel: int = 3, seed: int = 0, groups: int = 1, **about):
    depth = int(x.ty.shape[1]) // groups
    return op.nn.conv2d(
        x, weights(channels, depth, kernel, kernel, seed=seed), groups=groups, **about
    )


def matrix(depth: int, columns: int, seed: int = 0) -> relax.Expr:
    """A matrix whose columns are on grids."""
    random = np.random.default_rng(seed)
    scales = random.uniform(0.002, 0.01, columns).astype("float32")
    return relax.const(random.integers(-127, 128, (depth, columns)).astype("float32") * scales)


def chain(emit, x):
    x = rounded(emit, emit(conv(rounded(emit, x, *SIGNED), 20, padding=1)), *POSITIVE)
    x = rounded(emit, emit(conv(x, 33, strides=2, seed=1)), *SIGNED)
    return emit(conv(x, 7, 1, seed=2))


def residual(emit, x):
    x = rounded(emit, emit(conv(rounded(emit, x, *SIGNED), 24, 1)), *SIGNED)
    y = rounded(emit, emit(conv(x, 24, padding=1, seed=1)), 0.2, 130)
    total = emit(op.nn.relu(emit(op.add(x, y))))
    return emit(conv(rounded(emit, total, *POSITIVE), 40, padding=1, seed=2))


def branches(emit, x):
    x = rounded(emit, emit(conv(rounded(emit, x, *SIGNED), 32, 1)), *SIGNED)
    parts = [rounded(emit, emit(conv(x, 32, seed=s, padding=1)), *POSITIVE) for s in (1, 2)]
    whole = rounded(emit, emit(op.concat(parts, 1)), *POSITIVE)
    return emit(conv(emit(op.nn.max_pool2d(whole, (2, 2), (2, 2))), 16, 1, seed=3))


def groups(emit, x):
    x = rounded(emit, emit(conv(rounded(emit, x, *SIGNED), 32, 1)), *SIGNED)
    x = rounded(emit, emit(conv(x, 64, padding=1, seed=1, groups=2)), *POSITIVE)
    x = rounded(emit, emit(conv(x, 64, padding=1, seed=2, groups=64)), *SIGNED)  # depthwise
    return emit(conv(x, 20, 1, seed=3))


def read_by_tvm(emit, x):
    x = rounded(emit, emit(conv(rounded(emit, x, *SIGNED), 20)), *POSITIVE)
    return [emit(conv(x, 12, seed=1)), emit(op.sort(x, axis=1))]


def dense(emit, x):
    x = rounded(emit, emit(op.reshape(x, (1, 65, 11))), *SIGNED)
    first = emit(op.matmul(x, matrix(11, 40)))  # no dot4
    x = rounded(emit, emit(op.nn.gelu(first)), *SIGNED)
    bias = relax.const(np.random.default_rng(0).standard_normal(35).astype("float32"))
    parts = [emit(op.add(emit(op.matmul(x, matrix(40, 35, seed=s))), bias)) for s in (1, 2)]
    total = rounded(emit, emit(op.nn.relu(emit(op.add(*parts)))), *POSITIVE)
    flat = emit(op.reshape(total, (1, 65 * 35)))
    return emit(op.matmul(emit(op.reshape(flat, (5, 13 * 35))), matrix(13 * 35, 3, seed=3)))


def pooled(emit, x):
    x = rounded(emit, emit(conv(rounded(emit, x, *SIGNED), 32, padding=1)), *POSITIVE)
    means = rounded(emit, emit(op.mean(x, [2, 3])), *POSITIVE)
    return emit(op.matmul(means, matrix(32, 10)))


# Networks, and how many of their convolutions and products multiply bytes.
NETWORKS = {
    chain: 3,
    residual: 3,
    branches: 4,
    groups: 3,
    read_by_tvm: 2,
    dense: 2,
    pooled: 2,
}


@pytest.mark.parametrize("other", [SIGNED, POSITIVE])
def test_parts_of_several_grids(other: tuple[float, int]) -> None:
    """A concatenation of them is on one grid if they all are."""

    def body(emit, x):
        x = rounded(emit, emit(conv(rounded(emit, x, *SIGNED), 32, 1)), *SIGNED)
        parts = [emit(conv(x, 32, seed=s, padding=1)) for s in (1, 2)]
        parts = [rounded(emit, part, *g) for part, g in zip(parts, (POSITIVE, other), strict=True)]
        return emit(conv(emit(op.concat(parts, 1)), 16, 1, seed=3))

    mod = relax_module(body, (1, 5, 13, 11))
    scheduler = Scheduler.prepare(mod, NATIVE, cost_model=few_stages)
    alike = other == POSITIVE
    assert (variants(scheduler)[-1] == "int8") == alike
    (concat,) = (o.index for o in scheduler.graph.operators if o.kind == "concat")
    assert scheduler.stage_builder.lowered.implementations[concat].kernel.is_noop
    assert max(check(mod)) < 0.02


def variants(scheduler: Scheduler) -> list[str | None]:
    operators = scheduler.unsearched().operators
    return [operator.kernel for operator in operators]


def check(mod: tvm.IRModule, **options: object) -> list[float]:
    """Compare with TVM's own code for quantisation; return the differences.

    Two orders of a sum may be rounded to neighbouring numbers of a grid.
    """
    arguments = random_arguments(mod)
    expected = run_vm(tvm.compile(mod, UNOPTIMISED), arguments)
    options = options or {"cost_model": few_stages}
    scheduled = InterOperatorSchedule(NATIVE, **options)(mod)
    found = run_vm(tvm.compile(scheduled, NATIVE), arguments)
    return [
        float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(found, expected, strict=True)
    ]


@pytest.mark.parametrize(
    ("body", "count"), NETWORKS.items(), ids=[body.__name__ for body in NETWORKS]
)
def test_networks(body: Callable, count: int) -> None:
    mod = relax_module(body, (1, 5, 13, 11))
    scheduler = Scheduler.prepare(mod, NATIVE, cost_model=few_stages)
    assert variants(scheduler).count("int8") == count
    assert max(check(mod)) < 0.02


def test_a_processor_without_the_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TVM_IOS_EMULATE_INSTRUCTIONS")
    mod = relax_module(chain, (1, 5, 13, 11))
    scheduler = Scheduler.prepare(mod, NATIVE, cost_model=few_stages)
    assert ("int8" in variants(scheduler)) == (core_of(NATIVE).int8_dot4 is not None)
    assert max(check(mod)) < 0.02


def test_a_schedule_names_the_kernels() -> None:
    mod = relax_module(chain, (1, 5, 13, 11))
    scheduler = Scheduler.prepare(mod, NATIVE, cost_model=few_stages)
    schedule = scheduler.unsearched()
    exact = tuple(replace(o, kernel=o.kernel and "direct") for o in schedule.operators)
    schedule = replace(schedule, operators=exact)
    lowered = [i for stage in scheduler.lower(schedule) for i in stage.implementations]
    assert not any(i.kernel.variant == "int8" for i in lowered)
    assert max(check(mod, schedule=schedule)) < 0.02


def test_a_schedule_of_another_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    mod = relax_module(chain, (1, 5, 13, 11))
    schedule = Scheduler.prepare(mod, NATIVE, cost_model=few_stages).unsearched()
    scheduler = Scheduler.prepare(mod, NATIVE, cost_model=few_stages)
    builder = scheduler.stage_builder
    config = replace(builder.lowered.config, int8=False)
    other = type(builder).of(builder.lowered.graph, builder.results, config)
    with pytest.raises(ScheduleError, match="no instruction"):
        other.chosen({o.name: o.kernel for o in schedule.operators}, {})


@pytest.mark.slow
def test_a_search_measures_them() -> None:
    mod = relax_module(branches, (1, 5, 13, 11))
    schedule = Scheduler.prepare(mod, NATIVE, options=Options(winograd=False)).search()
    assert [o.kernel for o in schedule.operators].count("int8") == 4


def test_a_model_in_onnx(tmp_path: Path) -> None:
    import onnxruntime

    x = onnx_model(tmp_path / "m.onnx")
    (expected,) = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(None, {"x": x})
    library = tvm_ios.compile(tmp_path / "m.onnx", target=NATIVE, search=False)
    assert [o.kernel for o in library.schedule.operators].count("int8") == 4
    assert np.abs(library(x) - expected).max() < 0.02 * np.abs(expected).max()


def test_integers_of_weights() -> None:
    random = np.random.default_rng(0)
    whole = random.integers(-127, 128, (6, 5, 3, 3))
    whole[0, 0, 0, 0], whole[1] = -127, 0
    whole[2], whole[3] = 8 * (whole[2] // 16), 1
    scales = random.uniform(1e-4, 2.0, 6).astype("float32")
    values = (whole * scales[:, None, None, None]).astype("float32") * np.float32(1 / 3)
    integers, found = integers_of(values)
    assert integers.dtype == np.int8
    np.testing.assert_allclose(integers * found[:, None, None, None], values, rtol=1e-6, atol=0)


def test_the_lowest_integer_has_no_opposite() -> None:
    values = np.array([[-128, 3], [5, 7]], "float32") * np.float32(0.03)
    integers, scales = integers_of(values)
    np.testing.assert_allclose(integers * scales[:, None], values, rtol=1e-6)
    assert integers_of(-values) is None


def test_sums_that_overflow() -> None:
    """The largest bytes times these are more than the largest int32."""
    row = np.tile(np.array([127, 126], "float32"), 35_000)
    assert integers_of(row[None, :60_000]) is not None
    assert integers_of(row[None]) is None


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.1234])
def test_weights_on_no_grid(value: float) -> None:
    values = np.random.default_rng(0).integers(-127, 128, (4, 8, 3, 3)).astype("float32")
    values[2, 3, 1, 1] = value
    assert integers_of(values) is None


def _epilogue(*steps: tuple[str, tuple[float, ...]]) -> Epilogue:
    return Epilogue(
        tuple(
            Step(name, (Operand("value", i), *(Operand("constant", c) for c in constants)))
            for i, (name, constants) in enumerate(steps)
        )
    )


@pytest.mark.parametrize(
    ("steps", "grid"),
    [
        ((("round", ()), ("clip", (-3.0, 252.0)), ("multiply", (0.5,))), Grid(0.5, -3)),
        ((("relu", ()), ("round", ()), ("clip", (0.0, 127.0))), Grid(1.0, 0)),
        ((("round", ()), ("clip", (0.0, 256.0)), ("multiply", (0.5,))), None),
        ((("round", ()), ("clip", (0.5, 20.0))), None),
        ((("round", ()), ("clip", (1000.0, 1020.0))), None),
        ((("round", ()), ("clip", (-100.0, 156.0))), None),
        ((("clip", (0.0, 255.0)), ("multiply", (0.5,))), None),
        ((("round", ()), ("multiply", (0.5,))), None),
        ((("round", ()), ("clip", (0.0, 255.0)), ("multiply", (-0.5,))), None),
        ((("round", ()), ("clip", (0.0, 255.0)), ("add", (0.5,))), None),
        ((), None),
    ],
)
def test_grids(steps: tuple, grid: Grid | None) -> None:
    assert grid_of(_epilogue(*steps)) == grid
