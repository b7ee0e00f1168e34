# SPDX-License-Identifier: Apache-2.0
"""A back end that nobody knows of, from the search to the numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm import relax

from support.networks import (
    assert_close,
    compile_plain,
    conv,
    random_arguments,
    relax_module,
    run_vm,
)
from support.numpy_backend import KIND, LAUNCH, NumpyKind
from tvm_ios import OptionError, ScheduleError, TargetError, selftest
from tvm_ios.backend import registry
from tvm_ios.compiler.compare import compare
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.options import Options
from tvm_ios.schedule import Schedule
from tvm_ios.selftest import Settings
from tvm_ios.transform import InterOperatorSchedule

registry.register(NumpyKind())


def branches(emit: Any, x: relax.Expr) -> relax.Expr:
    """Four branches, a pooling that the interpreter does not know, and a sum."""
    parts = [emit(relax.op.nn.relu(emit(conv(x, 8, seed=i)))) for i in range(4)]
    joined = emit(relax.op.concat(parts, 1))
    pooled = emit(relax.op.nn.max_pool2d(joined, (3, 3), padding=1))
    return emit(relax.op.add(joined, pooled))


MOD = relax_module(branches, (2, 5, 9, 7))


@pytest.mark.parametrize("measure_all", [True, False])
def test_the_search_finds_what_the_clock_rewards(measure_all: bool) -> None:
    made = Scheduler.prepare(MOD, KIND, options=Options(measure_all=measure_all))
    comparison = compare(made)
    made.close()
    schedule = comparison.schedule
    first = schedule.stages[0]
    assert len(first.groups) == 4
    assert {stage.partitioning for stage in schedule.stages if stage.seconds} == {"processors"}
    assert schedule.measured["scheduled"] < schedule.measured["sequential"] - 3 * LAUNCH
    known = sum(stage.seconds or 0.0 for stage in schedule.stages)
    assert schedule.measured["scheduled"] == pytest.approx(known, rel=1e-6)


@pytest.mark.parametrize("search", [True, False])
def test_the_network_computes_the_same(search: bool) -> None:
    schedule = InterOperatorSchedule(KIND, search=search)
    (x,) = random_arguments(MOD)
    machine = relax.VirtualMachine(tvm.compile(schedule(MOD), "llvm"), tvm.cpu())
    expected = run_vm(compile_plain(MOD), [x])
    assert_close(machine["main"](tvm.runtime.tensor(x)).numpy(), expected[0])


def test_a_schedule_is_saved_and_applied() -> None:
    made = Scheduler.prepare(MOD, KIND)
    text = made.search().to_json()
    again = Schedule.from_dict(json.loads(text))
    scheduled = Scheduler.prepare(MOD, KIND).emit(again)
    machine = relax.VirtualMachine(tvm.compile(scheduled, "llvm"), tvm.cpu())
    (x,) = random_arguments(MOD)
    assert_close(machine["main"](tvm.runtime.tensor(x)).numpy(), run_vm(compile_plain(MOD), [x])[0])
    with pytest.raises(ScheduleError, match="made for test"):
        Scheduler.prepare(MOD, "llvm").emit(again)


def test_other_kinds_are_refused() -> None:
    with pytest.raises(TargetError, match=r"'opencl' is not supported; use 'llvm' .*'test'"):
        Scheduler.prepare(MOD, "opencl")


def test_an_installed_package_registers_a_back_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wheels.py").write_text(
        "from support.numpy_backend import NumpyKind\n"
        "from tvm_ios.backend import registry\n\n\n"
        "class Kind(NumpyKind):\n"
        "    name = 'ext_dev'\n\n\n"
        "def register():\n"
        "    registry.register(Kind())\n"
    )
    about = tmp_path / "wheels-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: wheels\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[tvm_ios.backends]\nwheels = wheels:register\n")
    with pytest.raises(TargetError, match="not supported"):
        registry.kind_of("ext_dev")
    monkeypatch.syspath_prepend(tmp_path)
    assert registry.kind_of("ext_dev").name == "ext_dev"


def test_a_self_test_needs_a_plan() -> None:
    with pytest.raises(OptionError, match="no self-test for targets of kind 'test'"):
        selftest.run(Settings(KIND))
