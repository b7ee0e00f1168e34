# SPDX-License-Identifier: Apache-2.0
"""What the search may form stages of (IOPS, section 3.1): TS, PS, and both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

from support.merging import inception_e
from support.networks import NATIVE, check_scheduled, few_stages, merging
from support.sums import network, repvgg, residual
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.errors import OptionError, ScheduleError
from tvm_ios.options import Options
from tvm_ios.schedule import Schedule, ScheduledStage
from tvm_ios.search import STRATEGIES, partition
from tvm_ios.search.templates import find_templates
from tvm_ios.transform import InterOperatorSchedule


def search(mod: tvm.IRModule, cost, *strategies: str) -> Schedule:
    options = Options(max_num_groups=2, strategies=strategies or STRATEGIES)
    return Scheduler.prepare(mod, NATIVE, cost_model=cost, options=options).search()


def kinds(schedule: Schedule) -> set[tuple[str, bool]]:
    """Of each stage its strategy, and whether it has several operators."""
    return {(stage.strategy, len(stage.operators) > 1) for stage in schedule.stages}


@pytest.mark.parametrize("cost", [few_stages, merging])
def test_only_concurrent_stages(cost) -> None:
    schedule = search(inception_e(), cost, "concurrent")
    assert {strategy for strategy, _ in kinds(schedule)} == {"concurrent"}


@pytest.mark.parametrize("cost", [few_stages, merging])
def test_only_replacements(cost) -> None:
    schedule = search(inception_e(), cost, "merge")
    assert kinds(schedule) == {("merge", True), ("concurrent", False)}


def test_the_pass_takes_strategies() -> None:
    with pytest.raises(OptionError, match="got 'merged'"):
        InterOperatorSchedule(NATIVE, strategies=["merged"])
    scheduled = InterOperatorSchedule(NATIVE, strategies=["merge"], cost_model=few_stages)
    scheduled(network(residual({"padding": 1})))
    assert {len(stage.operators) for stage in scheduled.schedule.stages} == {1}


def test_both() -> None:
    def half(graph, candidates):
        """Replacements cost as much as an operator, other stages half as much for each."""
        return np.array([1.0 if c.strategy == "merge" else 0.6 * len(c.ops) for c in candidates])

    schedule = search(inception_e(), half)
    assert any(strategy == "merge" for strategy, _ in kinds(schedule))
    assert sum(s.seconds for s in schedule.stages) < 0.6 * len(schedule.operators)


@pytest.mark.parametrize("wrong", [(), ("merge", "merge"), ("parallel",), "merge", (1,)])
def test_wrong_strategies(wrong) -> None:
    with pytest.raises(OptionError, match="concurrent, merge or both"):
        Options(strategies=wrong)


def test_a_replacement_that_is_measured_slower_is_not_chosen() -> None:
    def dear(graph, candidates):
        replaced = [c.strategy == "merge" and len(c.ops) > 1 for c in candidates]
        return np.where(replaced, 100.0, [float(len(c.ops)) for c in candidates])

    assert {strategy for strategy, _ in kinds(search(inception_e(), dear))} == {"concurrent"}


@pytest.mark.parametrize("body", [repvgg, residual({"padding": 1})], ids=["two", "one"])
def test_a_schedule_with_a_replacement_is_kept(body, tmp_path: Path) -> None:
    mod = network(body)
    schedule = search(mod, merging)
    assert any(stage.strategy == "merge" for stage in schedule.stages)
    schedule.save(tmp_path / "s.json")
    loaded = Schedule.load(tmp_path / "s.json")
    assert loaded == schedule
    check_scheduled(mod, schedule=loaded)


def test_operators_that_only_look_like_a_sum_are_refused() -> None:
    """A schedule that was edited: an operator reads the other, but does not add it."""
    scheduler = Scheduler.prepare(network(repvgg), NATIVE, cost_model=merging)
    schedule = scheduler.sequential()
    names = [stage.operators[0] for stage in schedule.stages]
    pool = next(name for name in names if name.startswith("max_pool2d"))
    conv = next(name for name in names if name.startswith("conv2d"))
    rest = [s for s in schedule.stages if s.operators[0] not in (pool, conv)]
    stages = (ScheduledStage(((pool, conv),), "merge"), *rest)
    with pytest.raises(ScheduleError, match="merges operators that cannot be merged"):
        scheduler.emit(Schedule(**{**vars(schedule), "stages": stages}))


def test_replacements_of_equal_cells_are_searched_once() -> None:
    """And what is replaced in one cell is replaced in all of them."""

    def cells(emit, x, y):
        for _ in range(3):
            x = emit(relax.op.nn.max_pool2d(repvgg(emit, x, y), (3, 3), padding=1))
        return x

    mod = network(cells)
    options = Options(max_block_size=3)
    scheduler = Scheduler.prepare(mod, NATIVE, cost_model=merging, options=options)
    found, graph = scheduler.stage_builder.replacements, scheduler.graph
    pairs = [ops for ops in found.sets if len(ops) == 2]
    assert len({found.together[op] for ops in pairs for op in ops}) == len(pairs) == 3
    blocks = partition(graph.dag, 3, found.together)
    assert all(any(set(ops) <= set(block) for block in blocks) for ops in pairs)
    lowered = scheduler.stage_builder.lowered
    templates = find_templates(lowered, found, scheduler.results, blocks)
    assert len({template.block for template in templates}) < len(blocks)
    schedule = scheduler.search()
    assert sum(stage.strategy == "merge" for stage in schedule.stages) == 3
    check_scheduled(mod, schedule=schedule)
