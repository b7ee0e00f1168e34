# SPDX-License-Identifier: Apache-2.0
"""Merged convolutions compute what the separate ones do; what cannot be merged exactly is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax

from support.conv2d import Case, reference
from support.merging import branches, inception_e
from support.networks import NATIVE, TARGETS, check_scheduled, constant, merging, relax_module
from tvm_ios.backend.cpu.core import core_of
from tvm_ios.backend.cpu.replace.table import RULES
from tvm_ios.backend.cpu.rules import LoweringConfig
from tvm_ios.backend.cpu.rules.implement import implement
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.errors import ScheduleError
from tvm_ios.graph.extract import extract
from tvm_ios.lowering.replacements.find import find_replacements
from tvm_ios.lowering.replacements.windows import Windows, enlarge
from tvm_ios.rewrite.prepare import prepare
from tvm_ios.schedule import ScheduledStage

op = relax.op
IMAGE = (2, 20, 9, 10)


def classes(mod: tvm.IRModule) -> list[int]:
    """The merge class of each convolution."""
    prepared = prepare(mod)
    graph = extract(prepared)
    results = relax.analysis.free_vars(prepared["main"].body.body)
    lowered = implement(graph, results, LoweringConfig(core_of(NATIVE)))
    pairs = zip(graph.operators, find_replacements(lowered, RULES).classes, strict=True)
    return [c for operator, c in pairs if "conv2d" in operator.kind]


ONE, THREE = {"kernel": (1, 1)}, {"padding": 1}
MERGEABLE = {
    "equal kernels": (THREE, {**THREE, "channels": 10}),
    "1x1 and 3x3": (ONE, THREE),
    "1x1 and 1x1": (ONE, {**ONE, "channels": 33}),
    "1x7 and 7x1": (
        {"kernel": (1, 7), "padding": (0, 3)},
        {"kernel": (7, 1), "padding": (3, 0), "channels": 5},
    ),
    "1x1, 3x3 and 5x5": (ONE, THREE, {"kernel": (5, 5), "padding": 2}),
    "strided": ({"strides": 2, **ONE}, {"strides": 2, **THREE}),
    "dilated": ({"dilation": 2, "padding": 2}, {**ONE, "dilation": 2}),
    "asymmetric padding": (
        {"kernel": (2, 2), "padding": (1, 0, 0, 1)},
        {"kernel": (2, 2), "padding": (0, 1, 1, 0)},
        {"padding": (2, 1, 0, 1)},
    ),
}


@pytest.mark.parametrize("convs", MERGEABLE.values(), ids=MERGEABLE)
def test_merged_convolutions_compute_the_same(convs) -> None:
    mod = branches(*convs)
    assert len(set(classes(mod))) == 1
    schedule = Scheduler.prepare(mod, NATIVE, cost_model=merging).search()
    merged = [stage for stage in schedule.stages if stage.strategy == "merge"]
    assert [len(stage.operators) for stage in merged] == [len(convs)]
    check_scheduled(mod, schedule=schedule)


@pytest.mark.parametrize("target", TARGETS)
def test_merging_in_every_instruction_set(target: tvm.target.Target) -> None:
    mod = branches(ONE, {**THREE, "channels": 10})
    schedule = Scheduler.prepare(mod, target, cost_model=merging).search()
    assert any(stage.strategy == "merge" for stage in schedule.stages)
    check_scheduled(mod, target=target, schedule=schedule)


NOT_MERGEABLE = {
    "strides": (THREE, {**THREE, "strides": 2}),
    "dilations": (THREE, {"padding": 2, "dilation": 2}),
    "groups": (THREE, {**THREE, "groups": 2, "channels": 32}),
    "sizes of the result": (THREE, {}),
    "taps that fall between": (
        {"kernel": (2, 2), "dilation": 2, "padding": 1},
        {**ONE, "dilation": 2},
    ),
}


@pytest.mark.parametrize("convs", NOT_MERGEABLE.values(), ids=NOT_MERGEABLE)
def test_convolutions_that_differ_are_not_merged(convs) -> None:
    assert classes(branches(*convs)) == [-1, -1]


@pytest.mark.slow
@pytest.mark.parametrize("convs", NOT_MERGEABLE.values(), ids=NOT_MERGEABLE)
def test_convolutions_that_differ_compute_the_same(convs) -> None:
    check_scheduled(branches(*convs))


def test_convolutions_with_other_programs_are_not_merged() -> None:
    assert classes(branches(THREE, THREE, relu=False)) == [-1, -1]


def test_convolutions_of_other_tensors_are_not_merged() -> None:
    def body(emit, x):
        left = emit(op.nn.conv2d(x, constant(20, 20, 3, 3), padding=1))
        right = emit(op.nn.conv2d(left, constant(20, 20, 3, 3), padding=1))
        return emit(op.concat([left, right], axis=1))

    assert classes(relax_module(body, IMAGE)) == [-1, -1]


def test_weights_that_are_inputs_are_not_merged() -> None:
    def body(emit, x, w):
        convs = [
            emit(op.nn.conv2d(x, weights, padding=1)) for weights in (w, constant(20, 20, 3, 3))
        ]
        return emit(op.concat(convs, axis=1))

    assert classes(relax_module(body, IMAGE, (20, 20, 3, 3))) == [-1, -1]


def test_results_that_leave_the_function_are_not_merged() -> None:
    def body(emit, x):
        return relax.Tuple([emit(op.nn.conv2d(x, constant(20, 20, 1, 1, seed=i))) for i in (0, 1)])

    assert classes(relax_module(body, IMAGE)) == [-1, -1]


def test_a_schedule_that_merges_what_cannot_be_merged_is_refused() -> None:
    mod = branches(THREE, {**THREE, "strides": 2})
    scheduler = Scheduler.prepare(mod, NATIVE, cost_model=merging)
    schedule = scheduler.sequential()
    names = [stage.operators[0] for stage in schedule.stages]
    convs = tuple((name,) for name in names if name.startswith("conv2d"))
    rest = [stage for stage in schedule.stages if not stage.operators[0].startswith("conv2d")]
    stages = (rest[0], ScheduledStage(convs, "merge"), *rest[1:])
    with pytest.raises(ScheduleError, match="merges operators that cannot be merged"):
        scheduler.emit(replace(schedule, stages=stages))


def test_a_row_and_a_column_of_taps_in_a_block_of_inception() -> None:
    mod = inception_e()
    scheduler = Scheduler.prepare(mod, NATIVE, cost_model=merging)
    schedule = scheduler.search()
    merged = [stage.operators for stage in schedule.stages if stage.strategy == "merge"]
    operators = {operator.name: operator for operator in scheduler.graph.operators}
    kernels = [
        {tuple(map(int, operators[name].anchor.args[1].ty.shape.values[2:])) for name in names}
        for names in merged
    ]
    assert kernels.count({(1, 3), (3, 1)}) == 2
    check_scheduled(mod, schedule=schedule)


@st.composite
def geometries(draw: st.DrawFn) -> list[dict]:
    """Convolutions of one image: any sizes, paddings in front that need not be centred."""
    dilation = draw(st.integers(1, 2))
    stride = draw(st.integers(1, 2))
    convs = []
    for _ in range(draw(st.integers(2, 3))):
        kernel = draw(st.tuples(*[st.integers(1, 4)] * 2))
        reach = [(size - 1) * dilation for size in kernel]
        before = [draw(st.integers(0, length)) for length in reach]
        after = [length - first for length, first in zip(reach, before, strict=True)]
        attrs = {"kernel": kernel, "padding": (*before, *after), "dilation": dilation}
        convs.append({**attrs, "strides": stride, "channels": draw(st.integers(2, 40))})
    return convs


@pytest.mark.slow
@settings(max_examples=4, deadline=None, derandomize=True, database=None)
@given(geometries())
def test_merges_of_any_geometry(convs: list[dict]) -> None:
    """Whatever is merged is merged exactly; what would need half a tap is not."""
    mod = branches(*convs)
    found = classes(mod)
    fronts = [tuple(p % conv["dilation"] for p in conv["padding"][:2]) for conv in convs]
    assert [c >= 0 for c in found] == [fronts.count(front) > 1 for front in fronts]
    check_scheduled(mod, schedule=Scheduler.prepare(mod, NATIVE, cost_model=merging).search())


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(geometries(), st.integers(0, 99))
def test_an_enlarged_kernel_computes_the_same(convs: list[dict], seed: int) -> None:
    """Against SciPy, in float64: zeros around a kernel change nothing."""
    random = np.random.default_rng(seed)
    image = random.standard_normal((1, 2, 9, 8))
    cases = [
        Case(
            1, 2, (9, 8), (2,), c["kernel"], (c["strides"],) * 2, c["padding"], (c["dilation"],) * 2
        )
        for c in convs
    ]
    windows = [Windows(*case.windows()) for case in cases]
    for alignment in {w.alignment for w in windows}:
        together = [w for w in windows if w.alignment == alignment]
        large = enlarge(together)
        for case, own in zip(cases, windows, strict=True):
            if own.alignment != alignment:
                continue
            weights = random.standard_normal((2, 2, *case.kernel))
            grown = large.hold(weights, own)
            front = (large.rows.before, large.columns.before)
            reach = [(size - 1) * case.dilation[0] for size in grown.shape[2:]]
            padding = (*front, *(r - f for r, f in zip(reach, front, strict=True)))
            assert np.count_nonzero(grown) == np.count_nonzero(weights)
            enlarged = replace(case, kernel=grown.shape[2:], padding=padding)
            np.testing.assert_allclose(
                reference(enlarged, image, grown), reference(case, image, weights), atol=1e-12
            )
