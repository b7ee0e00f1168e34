# SPDX-License-Identifier: Apache-2.0
"""A schedule says whether convolutions may be computed by Winograd's algorithm, and is obeyed."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

import tvm_ios
from support.cli import assert_one_sentence
from support.networks import NATIVE, conv, random_arguments, relax_module
from tvm_ios.backend.cpu.core import TYPICAL
from tvm_ios.cli.main import main
from tvm_ios.cli.options import add_kernels
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.errors import ScheduleError
from tvm_ios.options import Options
from tvm_ios.schedule import Schedule, ScheduledStage


def body(emit, x):
    """A convolution that Winograd's algorithm is faster for."""
    return emit(conv(emit(relax.op.nn.max_pool2d(x, (3, 3), padding=1)), 40))


MOD = relax_module(body, (2, 36, 17, 19))
(X,) = random_arguments(MOD)


def compiled(**options) -> tvm_ios.CompiledModel:
    return tvm_ios.compile(MOD, target=NATIVE, search=False, **options)


@pytest.fixture(scope="module", autouse=True)
def _typical_machine() -> Iterator[None]:
    """One whose memory is as far away as is typical: where it is busy, Winograd's may be slower."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tvm_ios.backend.cpu.backend.machine_balance", lambda *_: TYPICAL)
        yield


@pytest.fixture(scope="module")
def without() -> tvm_ios.CompiledModel:
    return compiled(winograd=False)


@pytest.fixture(scope="module")
def usual() -> tvm_ios.CompiledModel:
    return compiled()


def test_it_rounds_differently(without, usual) -> None:
    """By which the other tests know it."""
    assert not np.array_equal(without(X), usual(X))
    assert not without.schedule.winograd
    assert usual.schedule.winograd


def test_a_schedule_is_applied_as_it_was_made(without, usual, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    without.schedule.save(path)
    again = compiled(schedule=path)
    np.testing.assert_array_equal(again(X), without(X))
    assert again.schedule == without.schedule
    told = compiled(schedule=path, winograd=True)
    np.testing.assert_array_equal(told(X), usual(X))
    assert told.schedule.winograd


@pytest.mark.parametrize("variant", ["direct", "winograd2", "winograd4"])
def test_the_kernels_that_a_schedule_names(variant: str, usual, tmp_path: Path) -> None:
    """Whatever this process, which measures the machine anew, would choose itself."""
    operators = tuple(
        replace(op, kernel=variant) if op.kernel else op for op in usual.schedule.operators
    )
    assert operators[-1].kernel == variant
    schedule = replace(usual.schedule, operators=operators)
    scheduler = Scheduler.prepare(MOD, NATIVE)
    (*_, stage) = scheduler.lower(schedule)
    assert stage.implementations[0].kernel.variant == variant
    assert compiled(schedule=schedule).schedule.operators == operators


@pytest.mark.parametrize("kernel", ["direct", None])
def test_row_strips_of_a_machine_on_which_the_direct_kernel_was_faster(kernel: str | None) -> None:
    """Those of a schedule that was searched elsewhere are cut of the kernels that it had.

    Where an earlier release had no other kernel, its schedules name none.
    """

    def two(emit, x):
        return emit(relax.op.mean(emit(conv(body(emit, x), 40)), [2, 3]))

    mod = relax_module(two, (2, 36, 17, 19))
    given = Scheduler.prepare(mod, NATIVE).unsearched()
    names = [op.name for op in given.operators]
    operators = tuple(replace(op, kernel=kernel) if op.kernel else op for op in given.operators)
    assert operators != given.operators
    stages = (given.stages[0], ScheduledStage((tuple(names[1:3]),), partitioning="strips"))
    stages += given.stages[3:]
    schedule = replace(given, operators=operators, stages=stages)
    (expected,) = random_arguments(mod)
    library = tvm_ios.compile(mod, target=NATIVE, schedule=schedule)
    single = tvm_ios.compile(mod, target=NATIVE, search=False, winograd=False)
    np.testing.assert_allclose(library(expected), single(expected), rtol=1e-4, atol=1e-4)
    scheduler = Scheduler.prepare(mod, NATIVE)
    names = [span.kernel for span in scheduler.trace(schedule, 1).spans]
    assert not any("winograd" in name for name in names)


def test_in_a_pipeline(without) -> None:
    scheduling = tvm_ios.transform.InterOperatorSchedule(NATIVE, schedule=without.schedule)
    executable = tvm.compile(
        scheduling(MOD), NATIVE, relax_pipeline=relax.get_default_pipeline(NATIVE)
    )
    result = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(X))
    np.testing.assert_array_equal(result.numpy(), without(X))
    assert scheduling.schedule == without.schedule


def test_a_scheduler_that_was_told_nothing_refuses_it(without) -> None:
    scheduler = Scheduler.prepare(MOD, NATIVE)
    with pytest.raises(ScheduleError, match=r"give Options\(winograd=False\)"):
        scheduler.emit(without.schedule)


@pytest.mark.parametrize("given", [None, True, False])
def test_options_leave_it_to_the_schedule(given: bool | None, without, usual) -> None:
    options = Options(winograd=given)
    assert options.applying(None) is options
    for schedule in (without.schedule, usual.schedule):
        expected = schedule.winograd if given is None else given
        assert options.applying(schedule).winograd == expected


def test_on_the_command_line(without, tmp_path: Path, capsys) -> None:
    without.schedule.save(tmp_path / "s.json")
    assert main(["show", str(tmp_path / "s.json")]) == 0
    assert "no convolution uses Winograd's algorithm" in capsys.readouterr().out
    line = ["compile", "zoo:nasrnn_small", "--no-search", "-o", str(tmp_path / "m.so")]
    assert main([*line, "--no-winograd", "--schedule-out", str(tmp_path / "r.json")]) == 0
    assert json.loads((tmp_path / "r.json").read_text())["winograd"] is False
    parser = ArgumentParser()
    add_kernels(parser)
    flags = {None: [], True: ["--winograd"], False: ["--no-winograd"]}
    assert all(parser.parse_args(some).winograd is given for given, some in flags.items())


def test_files(usual, tmp_path: Path, capsys) -> None:
    """Those of earlier releases do not say it."""
    data = json.loads(json.dumps(usual.schedule.to_dict()))
    del data["winograd"]
    assert Schedule.from_dict(data) == usual.schedule
    assert not Schedule.from_dict({**data, "winograd": False}).winograd
    assert not replace(usual.schedule, winograd=False).lowers_like(usual.schedule)
    path = tmp_path / "s.json"
    path.write_text(json.dumps({**data, "winograd": "no"}))
    assert main(["show", str(path)]) == 4
    assert_one_sentence(capsys.readouterr(), "is damaged: 'winograd' is neither true nor false.")
