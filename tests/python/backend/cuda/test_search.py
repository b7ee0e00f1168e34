# SPDX-License-Identifier: Apache-2.0
"""The search for a CUDA device by measuring, on the fake driver: a launch takes a millisecond."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

import tvm_ios
from support.cuda.fake_driver import TARGET, Emulated
from support.cuda.model import Driver
from support.cuda.whole import settings
from support.networks import (
    NATIVE,
    assert_close,
    compile_plain,
    conv,
    few_stages,
    flatten,
    random_arguments,
    relax_module,
    run_vm,
)
from tvm_ios import zoo
from tvm_ios.compiler.compare import compare
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.database import MeasurementDatabase
from tvm_ios.measure.cache import MeasurementCache, operator_workload
from tvm_ios.options import Options
from tvm_ios.schedule import Schedule, ScheduledStage

op = relax.op
NOT_COMPUTING = {"TVM_IOS_FAKE_DRIVER_COMPUTE": "0"}


def branches(emit, x):
    """Two branches of two operators, whose windows leave several kernels to choose from.

    What reads their concatenation is timed behind it, although it launches nothing.
    """
    arms = []
    for seed, size in enumerate((1, 3)):
        arm = emit(op.nn.relu(emit(conv(x, 24, size, seed=seed))))
        arms.append(emit(op.nn.max_pool2d(arm, (3, 3), padding=(1, 1))))
    return emit(conv(emit(op.concat(arms, axis=1)), 8, 1, seed=7))


NETWORK = relax_module(branches, (1, 16, 10, 10))
ARGUMENTS = random_arguments(NETWORK)


def run_best(directory: Path) -> tuple[Schedule, list[np.ndarray]]:
    """The best of what a search by measuring finds, and what it then computes."""
    options = Options(database=directory / "m.sqlite3")
    with settings(NOT_COMPUTING):
        outcome = compare(Scheduler.prepare(NETWORK, TARGET, options=options))
    return outcome.schedule, flatten(outcome.variants(outcome.name, tensors()))


def tensors() -> list[tvm.runtime.Tensor]:
    return [tvm.runtime.tensor(array) for array in ARGUMENTS]


def search(directory: Path) -> tuple[Schedule, list[str]]:
    """What a search finds that measures all stages, and what it asks the driver."""
    driver = Driver()
    with settings(NOT_COMPUTING), driver.journal() as journal:
        options = Options(database=directory / "m.sqlite3", measure_all=True)
        schedule = Scheduler.prepare(NETWORK, TARGET, options=options).search()
    return schedule, journal


def search_with_records(directory: Path) -> tuple[list[str], list[str]]:
    """By records which have an operator's last kernel the fastest: the last and the chosen ones."""
    database = directory / "m.sqlite3"
    scheduler = Scheduler.prepare(NETWORK, TARGET, options=Options(database=database))
    backend, stage_builder = scheduler.backend, scheduler.stage_builder
    conditions = backend.conditions(stage_builder)
    records = MeasurementCache(MeasurementDatabase(database), backend.identity(), conditions)
    several = [found for found in stage_builder.network.candidates if len(found) > 1]
    for found in several:
        for i, implementation in enumerate(found):
            seconds = 1e-6 * (len(found) - i)
            records.add(operator_workload(implementation.kernel), {"alone": [seconds] * 7})
    with settings(NOT_COMPUTING):
        schedule = scheduler.search()
    chosen = {o.name: o.kernel for o in schedule.operators}
    names = [scheduler.graph.operators[found[0].operators[0]].name for found in several]
    return [found[-1].kernel.variant for found in several], [chosen[name] for name in names]


def run_edited(schedule: Schedule, partitionings: list[str]) -> tuple[bool, list[list[np.ndarray]]]:
    """Whether a schedule that was written and read leads to the same code; what it computes when
    it is edited to other divisions."""
    read = Schedule.from_dict(json.loads(json.dumps(schedule.to_dict())))
    scheduler = Scheduler.prepare(NETWORK, TARGET)
    same = kernels_of(scheduler.emit(read)) == kernels_of(scheduler.emit(schedule))
    edited = {
        d: replace(
            read, stages=tuple(replace(s, partitioning=_possible(s, d)) for s in read.stages)
        )
        for d in partitionings
    }
    variants = scheduler.compile(edited)
    return same, [flatten(variants(d, tensors())) for d in partitionings]


def _possible(stage: ScheduledStage, partitioning: str) -> str:
    return partitioning if len(stage.groups) > 1 else "streams"


def kernels_of(mod: tvm.IRModule) -> list[str]:
    """The source of a scheduled network's kernels."""
    (library,) = mod.attrs["external_mods"]
    return [str(module.inspect_source()) for module in library.imports]


def refusal(schedule: Schedule, target: tvm.target.Target = TARGET) -> str:
    """What is said of a schedule that cannot be applied."""
    with pytest.raises(tvm_ios.TvmIosError) as error:
        Scheduler.prepare(NETWORK, target, cost_model=few_stages).emit(schedule)
    return str(error.value)


@pytest.fixture(scope="module")
def best(
    emulated: Emulated, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Schedule, list[np.ndarray]]:
    return emulated.call(run_best, tmp_path_factory.mktemp("search"))


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    return run_vm(compile_plain(NETWORK), ARGUMENTS)[0]


def test_what_is_found_is_fast_and_right(best: tuple, expected: np.ndarray) -> None:
    schedule, (result,) = best
    assert set(schedule.measured) >= {"sequential", "greedy", "scheduled", "launched"}
    assert all(seconds > 0 for seconds in schedule.measured.values())
    # Two branches of two kernels, whose results are concatenated in place, and what reads them.
    assert schedule.estimates["sequential"] == pytest.approx(5e-3)
    assert schedule.estimates["scheduled"] == pytest.approx(3e-3)
    assert sum(o.kernel is not None for o in schedule.operators) >= 5
    assert_close(result, expected, 1e-5)


def search_small(name: str) -> tuple[Schedule, int, list[str]]:
    """What a search of a network of the zoo finds, how many concatenations are in place, and what
    it warns of."""
    options = Options(database=None, max_num_groups=2, max_group_size=2)
    warnings: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: warnings.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("tvm_ios").addHandler(handler)
    with settings(NOT_COMPUTING):
        scheduler = Scheduler.prepare(zoo.load(name), TARGET, options=options)
        schedule = scheduler.search()
    logging.getLogger("tvm_ios").removeHandler(handler)
    made = scheduler.stage_builder.lowered.implementations
    return schedule, sum(i is not None and i.kernel.is_noop for i in made), warnings


@pytest.mark.slow
@pytest.mark.parametrize("name", ["googlenet_small", "nasnet_a_small"])
def test_whole_networks_are_searched(name: str, emulated: Emulated) -> None:
    """Each has concatenations in place, which are in no timed run, and stages behind them."""
    schedule, in_place, warnings = emulated.call(search_small, name)
    assert in_place >= 2
    assert schedule.measurements > 20
    launches = sum(op.seconds > 0 for op in schedule.operators)
    assert schedule.estimates["scheduled"] < launches * 1e-3
    assert not warnings


@pytest.mark.slow
def test_a_second_search_measures_nothing(emulated: Emulated, tmp_path: Path) -> None:
    first, _ = emulated.call(search, tmp_path)
    second, journal = emulated.call(search, tmp_path)
    assert first.measurements > 0
    assert second.measurements == 0
    assert not any("launch" in line or "replay" in line for line in journal)
    assert second.lowers_like(first)


@pytest.mark.slow
def test_kernels_are_chosen_by_what_was_measured(emulated: Emulated, tmp_path: Path) -> None:
    last, chosen = emulated.call(search_with_records, tmp_path)
    assert len(last) >= 4
    assert chosen == last


def test_schedules_are_applied_and_edited(
    emulated: Emulated, best: tuple[Schedule, list[np.ndarray]], expected: np.ndarray
) -> None:
    partitionings = ["streams", "streams-2-widest", "fused"]
    same, results = emulated.call(run_edited, best[0], partitionings)
    assert same
    for (result,) in results:
        assert_close(result, expected, 1e-5)


def test_schedules_that_cannot_be_applied(best: tuple[Schedule, list[np.ndarray]]) -> None:
    schedule = best[0]
    sequential = Scheduler.prepare(NETWORK, TARGET, cost_model=few_stages).unsearched()
    joined = replace(sequential, stages=(replace(sequential.stages[0], partitioning="fused"),
                                         *sequential.stages[1:]))  # fmt: skip
    assert "A CUDA device cannot partition these operators by 'fused'" in refusal(joined)
    tiles = replace(joined, stages=(replace(joined.stages[0], partitioning="tiles"),
                                    *joined.stages[1:]))  # fmt: skip
    assert "use 'streams'" in refusal(tiles)
    assert "was made for cuda sm_90, not for llvm" in refusal(schedule, NATIVE)
    other = Scheduler.prepare(NETWORK, NATIVE, cost_model=few_stages).unsearched()
    assert "not for cuda sm_90" in refusal(other)
    older = tvm.target.Target({**TARGET.export(), "arch": "sm_80"})
    assert "not for cuda sm_80" in refusal(schedule, older)
