# SPDX-License-Identifier: Apache-2.0
"""Networks that multiply bfloat16, against float32: their errors are those of rounding."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
import tvm
from tvm import relax

from support.branches import network
from support.networks import (
    NATIVE,
    TARGETS,
    assert_close,
    check_scheduled,
    compile_plain,
    constant,
    conv,
    few_stages,
    many_stages,
    merging,
    random_arguments,
    relax_module,
    run_vm,
)
from support.rounded import (
    BODIES,
    BOUND,
    attention,
    fire,
    groups,
    image,
    left_to_tvm,
    module,
    residual,
    transformer,
)
from tvm_ios import zoo
from tvm_ios.backend.cpu import core
from tvm_ios.backend.cpu.core import TYPICAL, check_runnable, core_of
from tvm_ios.backend.cpu.rules import precision
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.errors import OptionError, ScheduleError, TargetError
from tvm_ios.options import Options
from tvm_ios.schedule import Schedule
from tvm_ios.transform import InterOperatorSchedule

op = relax.op
HALF = Options(precision="bf16")
SMALL = [n for n in zoo.names() if n.endswith("_small") and n != "randwire_small"]


@pytest.fixture(autouse=True)
def emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute on processors without the instructions, too."""
    monkeypatch.setenv("TVM_IOS_EMULATE_INSTRUCTIONS", "1")


OLDER = [
    pytest.param(*target.values, id=target.id, marks=[*target.marks, pytest.mark.slow])
    for target in TARGETS[1:]
]


@pytest.mark.parametrize("target", [TARGETS[0], *OLDER])
@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
def test_networks(body: Callable, target: tvm.target.Target) -> None:
    mod = module(body)
    lowered = Scheduler.prepare(mod, target, cost_model=few_stages, options=HALF).stage_builder
    assert lowered.lowered.narrow or body in (image, left_to_tvm)
    assert "bf16" in {lowered.variant(n) for n in range(len(lowered.lowered.implementations))}
    check_scheduled(mod, target=target, relative=BOUND, precision="bf16")


def test_reshapes_of_what_is_multiplied_move_nothing() -> None:
    """Queries, keys and values are bfloat16 from the product on, and lie where that wrote them."""
    lowered = Scheduler.prepare(module(attention), NATIVE, options=HALF).stage_builder.lowered
    reshapes = [op for op in lowered.graph.operators if op.kind == "reshape"][1:]
    assert len(reshapes) == 4
    for op_ in reshapes:
        assert lowered.implementations[op_.index].kernel.is_noop
        assert {op_.call.args[0], *op_.outputs} <= lowered.narrow.keys()


@pytest.mark.slow
@pytest.mark.parametrize("cost_model", [many_stages, merging])
@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
def test_other_schedules(body: Callable, cost_model: Callable) -> None:
    check_scheduled(module(body), relative=BOUND, precision="bf16", cost_model=cost_model)


def test_merged_operators() -> None:
    """Convolutions of one map, and products of one matrix, keep their precision."""

    def attention(emit, x):
        x = emit(op.reshape(x, (20, 143)))
        x = emit(op.matmul(x, constant(143, 40, scale=0.1)))
        parts = [emit(op.matmul(x, constant(40, n, seed=n, scale=0.1))) for n in (30, 33)]
        return emit(op.concat(parts, 1))

    for mod in (network(), relax_module(attention, (1, 20, 13, 11))):
        scheduler = Scheduler.prepare(mod, NATIVE, cost_model=merging, options=HALF)
        merged = [s for s in scheduler.search().stages if s.strategy == "merge"]
        assert merged
        check_scheduled(mod, relative=BOUND, precision="bf16", cost_model=merging)


@pytest.mark.parametrize("workers", [1, 3])
def test_other_numbers_of_workers(workers: int) -> None:
    target = tvm.target.Target({**NATIVE.export(), "num-cores": workers})
    for body in (fire, transformer):
        check_scheduled(module(body), target=target, relative=BOUND, precision="bf16")


@pytest.mark.parametrize("partitioning", ["tiles", "strips"])
def test_work_partitionings(partitioning: str) -> None:
    mod = module(residual)
    scheduler = Scheduler.prepare(mod, NATIVE, options=HALF)
    schedule = scheduler.unsearched()
    stages = [replace(stage, partitioning=partitioning) for stage in schedule.stages]
    planes = [
        i is not None and i.kernel.plane for i in scheduler.stage_builder.lowered.implementations
    ]
    stages = [
        s if p else replace(s, partitioning="tiles") for s, p in zip(stages, planes, strict=True)
    ]
    check_scheduled(
        mod, relative=BOUND, precision="bf16", schedule=replace(schedule, stages=stages)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_zoo(name: str) -> None:
    mod = zoo.load(name)
    arguments = random_arguments(mod)
    outputs = []
    for computed_in in ("fp32", "bf16"):
        schedule = InterOperatorSchedule(NATIVE, search=False, precision=computed_in)
        outputs.append(run_vm(compile_plain(schedule(mod)), arguments))
    for expected, actual in zip(*outputs, strict=True):
        assert_close(actual, expected, relative=3 * BOUND)


def test_what_is_not_finite_stays() -> None:
    """NaN is not rounded to infinity, nor the other way round."""
    mod = module(residual)
    (x,) = random_arguments(mod)
    x[0, :, 3, 4], x[0, 5, 10, 2] = np.nan, np.inf
    expected, actual = (
        run_vm(compile_plain(InterOperatorSchedule(NATIVE, search=False, precision=p)(mod)), [x])
        for p in ("fp32", "bf16")
    )
    np.testing.assert_array_equal(np.isnan(actual[0]), np.isnan(expected[0]))


@pytest.mark.parametrize("body", [fire, groups])
def test_a_schedule_names_the_precision_of_each_operator(body: Callable) -> None:
    """Values that other kernels store otherwise lie elsewhere, in concatenations, too."""
    mod = module(body)
    schedule = Scheduler.prepare(mod, NATIVE, options=HALF).unsearched()
    kernels = [o.kernel for o in schedule.operators if o.kind == "conv2d"]
    assert kernels.count("bf16") >= 3
    exact = [replace(o, kernel="direct") if o.kernel else o for o in schedule.operators]
    for number, relative in ((0, 1e-5), (2, BOUND), (3, BOUND)):
        mixed = replace(schedule, operators=(*schedule.operators[:number], *exact[number:]))
        check_scheduled(mod, relative=relative, precision="bf16", schedule=mixed)
    with pytest.raises(ScheduleError, match="made with the precision bf16"):
        InterOperatorSchedule(NATIVE, schedule=schedule, precision="fp32")(mod)


def test_kernels_of_both_precisions_are_traced() -> None:
    """The runner's memory is that of the schedule's kernels."""
    scheduler = Scheduler.prepare(module(fire), NATIVE, options=HALF)
    schedule = scheduler.unsearched()
    exact = [replace(o, kernel="direct") if o.kernel else o for o in schedule.operators]
    for operators in (schedule.operators, exact):
        assert scheduler.trace(replace(schedule, operators=tuple(operators)), 2).spans


def auto(mod: tvm.IRModule, tolerance: float) -> Schedule:
    """Return the schedule with as much bfloat16 as the tolerance allows; check its answers."""
    schedule = InterOperatorSchedule(
        NATIVE, search=False, precision="auto", tolerance=tolerance, winograd=False
    )
    arguments = random_arguments(mod)
    plain = InterOperatorSchedule(NATIVE, search=False, winograd=False)
    expected, actual = (run_vm(compile_plain(s(mod)), arguments) for s in (plain, schedule))
    for one, other in zip(actual, expected, strict=True):
        assert_close(one, other, max(3 * tolerance, 1e-5))  # on other inputs
    assert schedule.schedule is not None
    return schedule.schedule


def test_a_tolerance_decides_what_stays_in_float32() -> None:
    mod = module(transformer)
    found = [auto(mod, tolerance) for tolerance in (0.03, 0.004, 0.0)]
    narrow = [sum(o.kernel == "bf16" for o in s.operators) for s in found]
    assert narrow[0] == 5 > narrow[1] > narrow[2] == 0
    for schedule, tolerance in zip(found, (0.03, 0.004, 0.0), strict=True):
        assert schedule.rounding.tolerance == tolerance >= schedule.rounding.error
    assert found[0].rounding.error > 0 == found[2].rounding.error
    assert Schedule.from_dict(json.loads(found[0].to_json())) == found[0]
    again = InterOperatorSchedule(NATIVE, schedule=found[1], precision="auto")
    again(mod)
    assert again.schedule == found[1]


@pytest.mark.parametrize("tolerance", [0.03, 0.0])
def test_row_strips_of_one_precision_need_not_be_those_of_the_other(tolerance: float) -> None:
    """Rows are divided among workers by the direct kernel, and not by Winograd's algorithm."""

    def divided(emit, x):
        x = emit(conv(emit(conv(x, 8, 1)), 64))  # eight channels fill half a vector
        return emit(op.nn.max_pool2d(x, (3, 3), (2, 2), padding=1))

    schedule = InterOperatorSchedule(NATIVE, search=False, precision="auto", tolerance=tolerance)
    schedule(relax_module(divided, (1, 3, 128, 128)))
    kernel = {o.name: o.kernel for o in schedule.schedule.operators}["conv2d_1"]
    partitioning = {s.groups[0][0]: s.partitioning for s in schedule.schedule.stages}["conv2d_1"]
    expected = ("bf16", "strips") if tolerance else ("winograd4", "tiles")
    assert (kernel, partitioning) == expected


def test_values_that_become_infinite_stay_in_float32() -> None:
    """The largest numbers of float32 round to infinity."""

    def huge(emit, x):
        x = emit(op.add(emit(conv(x, 16, 1)), constant(1, 16, 1, 1, scale=0.0)))
        x = emit(op.add(x, relax.const(np.full((1, 16, 1, 1), 3.4e38, "float32"))))
        weights = relax.const(np.full((8, 16, 1, 1), 1e-38, "float32"))
        return emit(op.nn.conv2d(x, weights))

    found = auto(relax_module(huge, (1, 20, 5, 7)), 0.03)
    assert [o.kernel for o in found.operators if o.kind == "conv2d"] == ["bf16", "direct"]


def test_whole_numbers_are_not_rounded() -> None:
    """Positions, and what is computed of them, are exact."""

    def positions(emit, x):
        x = emit(op.reshape(x, (22, 130)))
        places = relax.const(np.arange(130 * 4).reshape(130, 4).astype("float32"))
        return emit(op.matmul(x, places))

    mod = relax_module(positions, (1, 20, 13, 11))
    scheduler = Scheduler.prepare(mod, NATIVE, options=HALF)
    assert "bf16" not in [o.kernel for o in scheduler.unsearched().operators]


def test_processors_without_the_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TVM_IOS_EMULATE_INSTRUCTIONS")
    old = tvm.target.Target({**NATIVE.export(), "mcpu": "haswell"})
    assert core_of(old).bf16_dot2 is None
    with pytest.raises(OptionError, match="haswell has no instructions that multiply bfloat16"):
        InterOperatorSchedule(old, search=False, precision="bf16")(module(fire))
    exact = InterOperatorSchedule(old, search=False, precision="auto")
    exact(module(fire))
    assert "bf16" not in [o.kernel for o in exact.schedule.operators]
    assert exact.schedule.rounding is None


@pytest.mark.parametrize("cpu", ["cascadelake", "znver4"])
def test_instructions_that_this_machine_lacks(cpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It multiplies as many numbers at a time, but neither bytes nor bfloat16."""
    here = tvm.target.Target({"kind": "llvm", "mcpu": "skylake-avx512"})
    monkeypatch.setattr(core, "resolve", lambda _target: here)
    check_runnable(here)
    with pytest.raises(TargetError, match=f"This machine cannot run code for {cpu}"):
        check_runnable(tvm.target.Target({"kind": "llvm", "mcpu": cpu}))


@pytest.mark.parametrize("precision", ["tf32", "fp16"])
def test_precisions_of_gpus(precision: str) -> None:
    with pytest.raises(OptionError, match=f"A CPU does not multiply in {precision}"):
        InterOperatorSchedule(NATIVE, search=False, precision=precision)(module(fire))


def test_a_search_measures_kernels_of_both_precisions() -> None:
    """Their weights are as cold as others, and they have keys of their own in the database."""
    check_scheduled(module(fire), relative=BOUND, precision="bf16", cost_model="measure")
    schedule = InterOperatorSchedule(NATIVE, precision="auto", max_num_groups=2)
    schedule(module(transformer))
    assert schedule.schedule.measured
    assert schedule.schedule.rounding.error > 0


def pooled(emit, x):
    """A convolution that Winograd's algorithm is faster for, and one that it cannot compute."""
    x = emit(op.nn.max_pool2d(x, (3, 3), padding=1))
    return emit(conv(emit(conv(x, 36, padding=1)), 12, 1))


def scheduled(body: Callable, **options) -> Schedule:
    """The schedule without a search, as on a typical machine."""
    schedule = InterOperatorSchedule(NATIVE, search=False, **options)
    with mock.patch("tvm_ios.backend.cpu.backend.machine_balance", return_value=TYPICAL):
        schedule(relax_module(body, (2, 36, 17, 19)))
    assert schedule.schedule is not None
    return schedule.schedule


def test_what_stays_in_float32_has_the_kernel_of_float32() -> None:
    """Winograd's where that is the fastest; with a tolerance, it may read bfloat16."""
    kernels = {
        tolerance: [
            o.kernel for o in scheduled(pooled, precision="auto", tolerance=tolerance).operators
        ]
        for tolerance in (0.0, 0.1)
    }
    _, fastest, _ = (o.kernel for o in scheduled(pooled).operators)
    assert fastest in ("winograd2", "winograd4")
    assert kernels[0.0] == [None, fastest, "direct"]
    assert kernels[0.1][1] in ("bf16", "bf16-winograd2", "bf16-winograd4")
    assert kernels[0.1][2] == "bf16"


def test_the_error_is_that_of_products_of_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which round more than Winograd's algorithm, and which the search may still choose."""
    monkeypatch.setattr(precision, "_SPEED", dict.fromkeys(precision._SPEED, 0.5))
    fast = scheduled(pooled, precision="auto", tolerance=0.1)
    assert fast.operators[1].kernel in ("bf16-winograd2", "bf16-winograd4")
    plain = scheduled(pooled, precision="auto", tolerance=0.1, winograd=False)
    assert fast.rounding.error == pytest.approx(plain.rounding.error, rel=1e-3)
