# SPDX-License-Identifier: Apache-2.0
"""Stages computed strip by strip compute what their operators compute one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax

from support.networks import (
    NATIVE,
    check_scheduled,
    constant,
    conv,
    few_stages,
    isa_of,
    relax_module,
)
from tvm_ios.backend.cpu.kernels.kernel import Kernel, Phase
from tvm_ios.backend.cpu.kernels.matmul.matmul import Matmul, matmul_kernel
from tvm_ios.backend.cpu.kernels.plane import PlaneTiles
from tvm_ios.backend.cpu.stage.plan import PlannedCall
from tvm_ios.backend.cpu.stage.strips import in_strips, strip_shares
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.errors import ScheduleError
from tvm_ios.lowering.schedule_lowering import ScheduleLowering
from tvm_ios.measure.protocol import TimedRuns
from tvm_ios.ops.tensor import TensorSpec
from tvm_ios.ops.window import Window
from tvm_ios.options import Options
from tvm_ios.schedule import Schedule, ScheduledStage

LANES = isa_of(NATIVE)[0].lanes
op = relax.op


def depthwise(x: relax.Expr, size: int, stride: int = 1, seed: int = 0) -> relax.Expr:
    channels = int(x.ty.shape.values[1])
    weights = constant(channels, 1, size, size, seed=seed)
    return op.nn.conv2d(x, weights, stride, padding=size // 2, groups=channels)


def separable(emit, x):
    return emit(conv(emit(depthwise(x, 3)), 24, 1))


def wide_after_narrow(emit, x):
    return emit(conv(emit(op.nn.relu(emit(conv(x, 20, 1)))), 40, 3, padding=1))


def deep(emit, x):
    x = emit(depthwise(emit(conv(x, 20, 1)), 5))
    return emit(conv(x, 20, 3, padding=1))


def strided(emit, x):
    x = emit(conv(x, 20, 3, padding=1, seed=1))
    return emit(conv(emit(depthwise(x, 3, stride=2)), 20, 1, seed=2))


def stepped_over(emit, x):
    """Neither the last row nor every other one of the first result is read."""
    x = emit(op.nn.max_pool2d(emit(conv(x, 20, 1, seed=1)), (2, 2), (2, 2)))
    return emit(conv(emit(op.nn.max_pool2d(x, (1, 1), (2, 2))), 20, 1, seed=2))


def fire(emit, x):
    """Two results of equal planes, concatenated in place."""
    squeeze = emit(op.nn.relu(emit(conv(x, LANES, 1, seed=1))))
    left = emit(conv(squeeze, 2 * LANES, 1, seed=2))
    right = emit(conv(squeeze, LANES, 3, padding=1, seed=3))
    return emit(conv(emit(op.concat([left, right], axis=1)), 20, 1, seed=4))


def residual(emit, x):
    """The sum reads the first convolution's result at its own pixels."""
    first = emit(conv(x, 20, 1, seed=1))
    second = emit(conv(first, 20, 3, padding=1, seed=2))
    return emit(op.add(second, first))


def pooled(emit, x):
    return emit(conv(emit(op.nn.max_pool2d(x, (3, 3), padding=1)), 20, 1))


def grouped(emit, x):
    """Groups of four and of sixteen channels."""
    x = emit(conv(x, 64, 1, seed=1))
    x = emit(op.nn.conv2d(x, constant(64, 4, 3, 3, seed=2), padding=1, groups=16))
    return emit(op.nn.conv2d(x, constant(32, 16, 3, 3, seed=3), padding=1, groups=4))


CASES = [separable, wide_after_narrow, deep, strided, stepped_over, fire, residual, pooled]


def between(body: Callable[..., relax.Expr]) -> Callable[..., relax.Expr]:
    """``body`` between convolutions: the function's own tensors are not in the blocked layout."""

    def whole(emit, x):
        return emit(conv(body(emit, emit(conv(x, 20, 1, seed=7))), 20, 1, seed=8))

    return whole


def one_stage_in_strips(mod: tvm.IRModule, target: tvm.target.Target) -> Schedule:
    """All operators but the last in one stage."""
    scheduler = Scheduler.prepare(
        mod, target, cost_model=few_stages, options=Options(winograd=False)
    )
    schedule = scheduler.sequential()
    *names, last = [operator.name for operator in schedule.operators]
    stages = (ScheduledStage((tuple(names),), partitioning="strips"), ScheduledStage(((last,),)))
    return replace(schedule, stages=stages)


HIGH, WIDE = (1, 20, 13, 11), (1, 20, 7, 30)
WORKERS_AND_SHAPES = [
    *[(workers, HIGH) for workers in (1, 2, 5)],
    (5, WIDE),  # hardly a row each
    *[pytest.param(workers, WIDE, marks=pytest.mark.slow) for workers in (1, 2)],
]


@pytest.mark.parametrize(("workers", "shape"), WORKERS_AND_SHAPES)
@pytest.mark.parametrize("body", CASES, ids=lambda f: f.__name__)
def test_results_are_the_same(
    body: Callable[..., relax.Expr], workers: int, shape: tuple[int, ...]
) -> None:
    target = tvm.target.Target({**NATIVE.export(), "num-cores": workers})
    mod = relax_module(between(body), shape)
    schedule = one_stage_in_strips(mod, target)
    check_scheduled(mod, target=target, schedule=schedule, winograd=False)


def each_in_strips(mod: tvm.IRModule, target: tvm.target.Target) -> Schedule:
    """Each operator in a stage of its own, by row strips where that is possible."""
    scheduler = Scheduler.prepare(
        mod, target, cost_model=few_stages, options=Options(winograd=False)
    )
    lowering, schedule = ScheduleLowering(scheduler.stage_builder), scheduler.sequential()
    stages = tuple(lowering.repartitioned(stage, "strips") for stage in schedule.stages)
    assert sum(stage.partitioning == "strips" for stage in stages) >= len(stages) // 2
    return replace(schedule, stages=stages)


@pytest.mark.parametrize("workers", [2, 5])
@pytest.mark.parametrize("body", [*CASES, grouped], ids=lambda f: f.__name__)
def test_single_operators(body: Callable[..., relax.Expr], workers: int) -> None:
    target = tvm.target.Target({**NATIVE.export(), "num-cores": workers})
    mod = relax_module(between(body), HIGH)
    schedule = each_in_strips(mod, target)
    check_scheduled(mod, target=target, schedule=schedule, winograd=False)


def linear(x: relax.Expr, columns: int, seed: int) -> relax.Expr:
    return op.matmul(x, constant(int(x.ty.shape.values[-1]), columns, seed=seed, scale=0.1))


def perceptron(emit, x):
    """Rows of a matrix are divided as those of a map are, also where they are normalised."""
    length = int(x.ty.shape.values[-1])
    scale, shift = constant(length, seed=4), constant(length, seed=5)
    normal = emit(op.nn.layer_norm(x, scale, shift, axes=[-1]))
    first = emit(op.nn.gelu(emit(linear(normal, 50, seed=1))))
    second = emit(op.add(emit(linear(first, 40, seed=2)), x))
    return emit(linear(second, 37, seed=3))


@pytest.mark.parametrize("workers", [2, 5])
@pytest.mark.parametrize("shape", [(1, 53, 40), (1, 7, 9, 40), (61, 40)])
@pytest.mark.parametrize("divided", [one_stage_in_strips, each_in_strips])
def test_rows_of_matrices(divided, shape: tuple[int, ...], workers: int) -> None:
    target = tvm.target.Target({**NATIVE.export(), "num-cores": workers})
    mod = relax_module(perceptron, shape)
    check_scheduled(mod, target=target, schedule=divided(mod, target))


@pytest.mark.parametrize("matrices", [(True, True), (False, False), (True, False), (False, True)])
def test_a_row_of_a_matrix_is_no_pixel_of_a_map(matrices: tuple[bool, bool]) -> None:
    """There may be as many of both, in another order."""
    calls = []
    for i, matrix in enumerate(matrices):
        spec, plane = TensorSpec((49, 16)), PlaneTiles(1, 7, 7, 49, matrix=matrix)
        kernel = Kernel("k", i, (spec,), (spec,), (Phase(7, lambda *_: None),), plane=plane)
        calls.append(PlannedCall(kernel, 1.0, 0, (i - 1,) if i else ()))
    assert in_strips(calls) == (matrices[0] == matrices[1])


def two_products(k_blocks: bool) -> list[PlannedCall]:
    """Two matrix products, the second of which reads the first one's result."""
    core = replace(isa_of(NATIVE)[0], l2_bytes=1 << 14 if k_blocks else 1 << 24)
    kernels = [matmul_kernel(Matmul(41, 256, 256), core) for _ in range(2)]
    return [PlannedCall(k, 1.0, 0, (i - 1,) if i else ()) for i, k in enumerate(kernels)]


def test_no_two_workers_keep_sums_in_the_same_tile() -> None:
    assert in_strips(two_products(k_blocks=False))
    divided = two_products(k_blocks=True)
    assert not in_strips(divided)
    for call in divided:  # alone, each tile belongs to one strip
        assert in_strips([replace(call, after=())])


def test_single_operators_in_many_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tvm_ios.backend.cpu.stage.strips.CACHE_SHARE", 1e-3)
    mod = relax_module(between(strided), HIGH)
    check_scheduled(mod, schedule=each_in_strips(mod, NATIVE), winograd=False)


@pytest.mark.parametrize("body", [fire, deep, strided], ids=lambda f: f.__name__)
def test_small_caches_make_many_strips(body, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tvm_ios.backend.cpu.stage.strips.CACHE_SHARE", 1e-3)
    mod = relax_module(between(body), (1, 20, 13, 11))
    check_scheduled(mod, schedule=one_stage_in_strips(mod, NATIVE), winograd=False)


def test_strips_that_cannot_be_cut_are_refused() -> None:
    mod = relax_module(lambda emit, x: emit(conv(x, 20, 3)), (1, 20, 8, 8))
    scheduler = Scheduler.prepare(mod, NATIVE, cost_model=few_stages)
    schedule = scheduler.sequential()
    wrong = replace(schedule, stages=(replace(schedule.stages[0], partitioning="strips"),))
    with pytest.raises(ScheduleError, match="conv2d_0"):
        scheduler.emit(wrong)


def test_strips_are_measured() -> None:
    """They are one of the ways in which a stage's latency is found."""
    mod = relax_module(between(separable), (1, 20, 13, 11))
    scheduler = Scheduler.prepare(mod, NATIVE)
    spec = scheduler.stage_builder.stage_of((1, 2), "concurrent")
    assert (
        scheduler.stage_builder.partitionings(spec, scheduler.cost.operator_seconds)[-1] == "strips"
    )
    stage = scheduler.stage_builder.partition(spec, "strips", scheduler.cost.operator_seconds)
    timed: list[TimedRuns] = []
    scheduler.pool.each(
        [stage], lambda runner, s: runner.time([s], 3), lambda _, t: timed.append(t)
    )
    (runs,) = timed
    assert runs.seconds.shape == runs.preempted.shape == (3, 1)
    assert (runs.seconds > 0).all()


@st.composite
def chains(draw: st.DrawFn) -> list[PlannedCall]:
    """A chain of kernels, row by row or pixel by pixel, whose planes fit each other."""
    height, width = draw(st.integers(1, 20)), draw(st.integers(1, 20))
    calls = []
    for i in range(draw(st.integers(2, 4))):
        if draw(st.booleans()):
            size = draw(st.sampled_from([1, 3, 5]))
            stride = draw(st.integers(1, 2))
            out, wide = -(-height // stride), -(-width // stride)
            out = max(1, out - draw(st.integers(0, 1)))  # the last rows may not be read
            rows = Window(height, out, size, stride, 1, size // 2)
            plane = PlaneTiles(draw(st.integers(1, 3)), out, wide, out * wide, rows, width)
            height, width = out, wide
        else:
            pixels, tile = height * width, draw(st.integers(1, 40))
            plane = PlaneTiles(draw(st.integers(1, 3)), -(-pixels // tile), tile, pixels)
        spec = TensorSpec((plane.pixels, draw(st.integers(1, 64))))
        phase = Phase(plane.outer * plane.num_tiles, lambda *_: None)
        kernel = Kernel("k", i, (spec,), (spec,), (phase,), plane=plane)
        calls.append(PlannedCall(kernel, 1.0, 0, (i - 1,) if i else ()))
    return calls


@settings(max_examples=300, deadline=None)
@given(chains(), st.integers(1, 5), st.integers(64, 1 << 16))
def test_what_a_step_reads_was_computed_by_the_same_worker(calls, workers, cache_bytes) -> None:
    assert in_strips(calls)
    (share,) = strip_shares(calls, workers, cache_bytes)
    last = len(calls) - 1
    results = []
    for steps in share.steps:
        computed = [np.zeros(call.kernel.plane.pixels, bool) for call in calls]
        for step in steps:
            plane = calls[step.call].kernel.plane
            begin, end = plane.read((step.begin, step.end))
            assert not step.call or computed[step.call - 1][begin:end].all()
            computed[step.call][step.begin * plane.width : step.end * plane.width] = True
        results.append(computed)
    assert (np.sum([computed[last] for computed in results], axis=0) == 1).all()
    for call in range(last):
        assert np.any([computed[call] for computed in results], axis=0).all()
