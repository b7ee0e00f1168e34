# SPDX-License-Identifier: Apache-2.0
"""The measured cost on a simulated device: what is measured, how exactly, and what is refused."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tvm import relax

from replay.device import Crash, SimulatedStageBuilder
from replay.machine import MACHINES, Machine, jump
from support.networks import conv, relax_module
from support.numpy_backend import KIND
from support.simulated_device import ALONE, Simulation, branches, by_size
from tvm_ios import CostError, DeviceError
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.database import MeasurementDatabase
from tvm_ios.graph.dag import Candidate
from tvm_ios.graph.operators import OperatorGraph
from tvm_ios.lowering.stages import AnyStage
from tvm_ios.measure.cache import MeasurementCache, stage_workload
from tvm_ios.measure.protocol import TimedRuns
from tvm_ios.measure.timing.stages import sensible
from tvm_ios.options import Options

ALL = Options(measure_all=True)
IMPOSSIBLE = [math.nan, math.inf, -math.inf, 0.0]


def _candidate(*ops: int) -> Candidate:
    return Candidate(ops, "concurrent")


def _complete(simulation: Simulation, stages: Sequence[Candidate]) -> bool:
    """Whether the stages compute each operator once, and none before what it reads."""
    order = [op for stage in stages for op in stage.ops]
    done: set[int] = set()
    for stage in stages:
        done |= set(stage.ops)
        if any(u not in done for u, v in simulation.scheduler.graph.edges if v in done):
            return False
    return sorted(order) == list(range(len(simulation.scheduler.graph.operators)))


def test_all_stages_of_a_search_are_measured() -> None:
    simulation = Simulation(by_size(), options=ALL)
    cost = simulation.cost()
    stages = simulation.search(cost)
    true = [simulation.truth(simulation.stage_of(*stage.ops))["processors"] for stage in stages]
    assert cost(stages).tolist() == pytest.approx(true)
    assert [stage.ops for stage in stages] == [(0, 1, 2), (3,)]


class _Worthless(SimulatedStageBuilder):
    """Stages of which the first two operators' can save nothing."""

    def max_saving(
        self,
        stage: AnyStage,
        serial: Mapping[Hashable, float],
        costs: Mapping[Hashable, float],
    ) -> float:
        return 0.0 if len(stage.implementations) == 2 else 1.0


def test_what_cannot_gain_is_priced_above_its_operators_and_not_measured() -> None:
    simulation = Simulation(by_size())
    builder = simulation.stage_builder
    simulation.stage_builder = _Worthless(
        builder.lowered, builder.workers, original=builder, latencies=simulation
    )
    cost = simulation.measured()
    pair, single = cost([_candidate(0, 1), _candidate(0)])
    assert pair > 2 * single
    assert pair == pytest.approx(2 * single, rel=1e-5)
    assert cost.measurements == 2
    assert cost.partitioning(_candidate(0, 1)) == "processors"
    assert cost([_candidate(0, 1), _candidate(0, 1, 2)])[0] == pair  # also beside others
    assert cost.measurements == 4


def test_floors_are_even_shares_of_what_operators_take_on_one_worker() -> None:
    """Those that TVM lowers have none, and no stage takes them for infinite."""

    def body(emit: Callable[[relax.Expr], relax.Var], x: relax.Expr) -> relax.Expr:
        return emit(relax.op.cumsum(emit(conv(emit(conv(x, 4)), 5)), axis=1))

    simulation = Simulation(by_size(), relax_module(body, (1, 3, 5, 5)))
    assert simulation.stage_builder.lowered.opaque == {2}
    cost = simulation.measured()
    share = ALONE / simulation.stage_builder.workers
    assert cost.floors([2, 0, 1]).tolist() == pytest.approx([0.0, share, share])
    kernel = simulation.stage_of(1).implementations[0].kernel
    cost.operator_seconds[kernel.key] = math.inf
    assert cost.floors([1, 0]).tolist() == pytest.approx([0.0, share])
    del cost.operator_seconds[kernel.key]
    assert cost.floors([1, 0]).tolist() == pytest.approx([0.0, share])


def test_the_stages_of_a_schedule_are_measured_again() -> None:
    """Until the noise averages out."""
    stages, true = [_candidate(0, 1), _candidate(2, 3), _candidate(4)], [1.2e-3, 1.2e-3, 1e-3]
    errors = []
    for seed in range(20):
        simulation = Simulation(by_size(), branches(5), Machine(jitter=0.05, seed=seed))
        cache = MeasurementCache()
        cost = simulation.measured(cache)
        first = cost(stages)
        key = simulation.stage_of(0, 1).key
        (before,) = cache.samples(key).values()
        assert cost.resolve(stages) > 0
        (samples,) = cache.samples(key).values()
        assert len(samples) > 2 * len(before)
        assert cost.resolve(stages) == 0
        errors.append([np.std(np.log(latencies / true)) for latencies in (first, cost(stages))])
    before, after = np.mean(errors, axis=0)
    assert after < before


def test_a_stage_that_crashes_is_told_from_the_others(caplog: pytest.LogCaptureFixture) -> None:
    """A crash loses what else was timed in the same run."""

    def truth(stage: AnyStage) -> Mapping[str, float]:
        if [i.operators for i in stage.implementations] == [(0,), (1,)]:
            raise Crash
        return by_size()(stage)

    cost = Simulation(truth, branches(4)).measured()
    with caplog.at_level(logging.WARNING):
        crashing, other = cost([_candidate(0, 1), _candidate(2, 3)])
    assert math.isinf(crashing)
    assert other == pytest.approx(1.2e-3)
    assert sum("is not used" in record.message for record in caplog.records) == 1


def test_a_stage_that_crashes_when_it_is_measured_again_is_not_used() -> None:
    crashing = False

    def truth(stage: AnyStage) -> Mapping[str, float]:
        if crashing and len(stage.implementations) == 2:
            raise Crash
        return by_size()(stage)

    cost, stages = Simulation(truth).measured(), [_candidate(0, 1), _candidate(2)]
    assert cost(stages)[0] == pytest.approx(1.2e-3)
    crashing = True
    assert cost.resolve(stages) > 0
    assert math.isinf(cost(stages)[0])
    assert cost.resolve(stages) == 0  # a search ends


@pytest.mark.parametrize("wrong", IMPOSSIBLE)
def test_a_stage_of_impossible_times_is_neither_chosen_nor_recorded(
    wrong: float, tmp_path: Path
) -> None:
    def truth(stage: AnyStage) -> Mapping[str, float]:
        return {"processors": 1e-3 if len(stage.implementations) == 1 else wrong}

    path = tmp_path / "m.sqlite3"
    simulation = Simulation(truth, options=replace(ALL, database=path))
    cost = simulation.cost()
    stages = simulation.search(cost)
    assert [len(stage.ops) for stage in stages] == [1] * 4
    assert cost([_candidate(0, 1)])[0] == math.inf
    with closing(MeasurementDatabase(path)) as database:
        rows = list(database.rows())
    assert rows
    assert all(row.samples for row in rows)
    assert all(sensible(np.array(t)) == list(t) for row in rows for t in row.samples.values())


@pytest.mark.parametrize("wrong", [*IMPOSSIBLE, -1e-6])
@pytest.mark.parametrize("known", [True, False])
def test_a_device_that_always_answers_nonsense_ends_the_search(wrong: float, known: bool) -> None:
    def readings(runs: TimedRuns) -> TimedRuns:
        if known:
            return replace(runs, arithmetic=np.full_like(runs.arithmetic, wrong))
        wrongly = np.full_like(runs.seconds, wrong if wrong > -1 else np.nan)
        return replace(runs, seconds=wrongly if wrong != -1e-6 else 0 * wrongly)

    simulation = Simulation(by_size(), options=ALL, readings=readings)
    with pytest.raises(DeviceError, match=r"impossible times; .* works without measuring\.$"):
        simulation.search(simulation.cost())


def test_a_clock_that_always_shows_the_same() -> None:
    simulation = Simulation(
        by_size(),
        readings=lambda runs: TimedRuns.steady(np.full_like(runs.seconds, 1e-3)),
        options=Options(measure_all=False),
    )
    cost = simulation.cost()
    stages = simulation.search(cost)
    assert _complete(simulation, stages)
    assert cost(stages).tolist() == [1e-3] * len(stages)


@pytest.mark.parametrize("moment", [0.0, 0.02, 0.05, 0.1, 0.3])
@pytest.mark.parametrize("factor", [10.0, 0.1])
def test_a_machine_that_is_slower_or_faster_by_ten_from_a_moment_on(
    moment: float, factor: float
) -> None:
    simulation = Simulation(by_size(), machine=Machine([jump(moment, factor)]), options=ALL)
    cost = simulation.cost()
    stages = simulation.search(cost)
    assert [stage.ops for stage in stages] == [(0, 1, 2), (3,)]
    together, alone = cost(stages)
    assert together == pytest.approx(1.8 * alone, rel=0.1)


def test_a_clock_that_jumps() -> None:
    """Some times are ten times what they were, and the known work's are as ever."""
    random = np.random.default_rng(1)

    def readings(runs: TimedRuns) -> TimedRuns:
        jumped = random.random(runs.seconds.shape) < 0.1
        return replace(runs, seconds=np.where(jumped, 10 * runs.seconds, runs.seconds))

    simulation = Simulation(by_size(), readings=readings, options=ALL)
    assert [stage.ops for stage in simulation.search(simulation.cost())] == [(0, 1, 2), (3,)]


def _slower_together(runs: TimedRuns) -> TimedRuns:
    """Two stages one after another take half as long again as each of them among others."""
    return replace(runs, seconds=runs.seconds * (1.5 if runs.seconds.shape[1] == 2 else 1.0))


def test_prices_are_corrected_by_the_whole_schedule() -> None:
    simulation = Simulation(by_size(), readings=_slower_together)
    cost, stages = simulation.measured(), [_candidate(0, 1, 2), _candidate(3)]
    before = cost(stages)
    assert before == pytest.approx([1.8e-3, 1e-3])
    assert not cost.agrees(stages)
    assert cost(stages) == pytest.approx(1.5 * before)
    assert cost.agrees(stages)  # a schedule is run once
    assert cost(stages) == pytest.approx(1.5 * before)


def test_a_schedule_that_takes_what_it_is_priced_at() -> None:
    cost, stages = Simulation(by_size()).measured(), [_candidate(0, 1, 2), _candidate(3)]
    before = cost(stages).tolist()
    assert cost.agrees(stages)
    assert cost(stages).tolist() == before


def test_a_schedule_of_the_database_is_not_run_again(tmp_path: Path) -> None:
    options, stages = replace(ALL, database=tmp_path / "m.sqlite3"), [_candidate(0, 1, 2)]
    stages.append(_candidate(3))
    Simulation(by_size(), options=options).cost()(stages)
    simulation = Simulation(by_size(), options=options, readings=_slower_together)
    cost = simulation.cost()
    assert cost(stages) == pytest.approx([1.8e-3, 1e-3])
    now = simulation.machine.now
    assert cost.agrees(stages)
    assert simulation.machine.now == now


def test_later_searches_scale_to_the_speed_of_the_first(tmp_path: Path) -> None:
    """What is in the database and what is measured later can be compared."""
    options, prices = replace(ALL, database=tmp_path / "m.sqlite3"), []
    for slowdown, ops in ((1.0, (0, 1)), (2.0, (1, 2))):
        machine = Machine([lambda times, s=slowdown: np.full(len(times), s)])
        simulation = Simulation(by_size(), machine=machine, options=options)
        cost = simulation.cost()
        prices += cost([_candidate(*ops)]).tolist()
        assert cost.measurements > 0
    assert prices == pytest.approx([1.2e-3] * 2)


def test_slow_partitionings_are_not_measured_again() -> None:
    def truth(stage: AnyStage) -> Mapping[str, float]:
        (seconds,) = by_size()(stage).values()
        return {"processors": seconds, "far": 2 * seconds, "near": 1.05 * seconds}

    simulation, cache = Simulation(truth), MeasurementCache()
    cost, stages = simulation.measured(cache), [_candidate(0, 1)]
    cost(stages)
    key = simulation.stage_of(0, 1).key
    before = {name: len(times) for name, times in cache.samples(key).items()}
    cost.resolve(stages)
    more = {name: len(times) - before[name] for name, times in cache.samples(key).items()}
    assert more["far"] == 0 < min(more["near"], more["processors"])
    assert cost.partitioning(stages[0]) == "processors"


def test_a_row_that_lies_is_contradicted() -> None:
    """When its stage is chosen, before any schedule is run."""
    simulation, cache = Simulation(by_size()), MeasurementCache()
    cache.add(stage_workload(simulation.stage_of(0, 1)), {"processors": [1e-9] * 2})
    cost, stages = simulation.measured(cache), [_candidate(0, 1)]
    assert cost(stages) == [1e-9]
    assert cost.measurements == 2  # the operators, which are what it is compared with
    assert cost.resolve(stages) > 0
    assert cost(stages) == pytest.approx([1.2e-3])


@pytest.mark.parametrize("kind", MACHINES)
def test_a_database_whose_rows_lie(kind: str, tmp_path: Path) -> None:
    """What a stage is said to take is not what it takes: it is measured before it is chosen."""
    path = tmp_path / "m.sqlite3"
    simulation = Simulation(
        by_size(shared=1.5), machine=MACHINES[kind](1), options=replace(ALL, database=path)
    )
    scheduler = simulation.scheduler
    identity = scheduler.backend.identity()
    conditions = scheduler.backend.conditions(scheduler.stage_builder)
    cache = MeasurementCache(scheduler.database, identity, conditions)
    cache.add(stage_workload(simulation.stage_of(0, 1)), {"processors": [1e-9] * 2})
    cost = simulation.cost()
    stages = simulation.search(cost)
    assert _complete(simulation, stages)
    assert (0, 1) not in [stage.ops for stage in stages]
    assert cost([_candidate(0, 1)])[0] > 2e-3


def test_a_cost_model_of_the_user_that_contradicts_itself() -> None:
    random = np.random.default_rng(2)

    def prices(graph: OperatorGraph, candidates: Sequence[Candidate]) -> np.ndarray:
        return random.exponential(1.0, len(candidates))

    simulation = Simulation(by_size())
    made = Scheduler.prepare(simulation.mod, KIND, cost_model=prices)
    schedule = made.search()
    made.check(schedule)


@pytest.mark.parametrize("price", [math.nan, -1.0])
def test_a_cost_model_of_the_user_with_impossible_prices(price: float) -> None:
    simulation = Simulation(by_size())
    made = Scheduler.prepare(
        simulation.mod, KIND, cost_model=lambda _, candidates: np.full(len(candidates), price)
    )
    with pytest.raises(CostError, match=r"^[A-Za-z][^\n]*$"):
        made.search()


def test_a_schedule_is_predicted_by_its_whole_run_not_by_the_luckiest_prices() -> None:
    errors = []
    for seed in range(20):
        simulation = Simulation(
            by_size(shared=0.98), branches(6), Machine(jitter=0.02, seed=seed), options=ALL
        )
        cost = simulation.cost()
        stages = simulation.search(cost)
        true = sum(simulation.truth(simulation.stage_of(*s.ops))["processors"] for s in stages)
        errors.append(np.log([cost(stages).sum() / true, cost.in_network(stages).sum() / true]))
    price, whole = np.mean(errors, axis=0)
    assert price < -0.01
    assert abs(whole) < 0.007


def test_a_schedule_that_cannot_run_is_not_run() -> None:
    crashes = []

    def truth(stage: AnyStage) -> Mapping[str, float]:
        if len(stage.implementations) == 2:
            crashes.append(stage)
            raise Crash
        return by_size()(stage)

    cost = Simulation(truth).measured()
    stages = [_candidate(0, 1), _candidate(2), _candidate(3)]
    cost(stages)
    before = len(crashes)
    assert math.isinf(cost.in_network(stages)[0])
    assert len(crashes) == before


def test_a_run_that_something_disturbed_corrects_no_price() -> None:
    """Known work does not show every disturbance: some programs only need the caches."""
    disturbed = 0

    def readings(runs: TimedRuns) -> TimedRuns:
        whole = runs.seconds.shape[1] == 3
        nonlocal disturbed
        disturbed += whole
        return replace(runs, seconds=(1.5 if whole and disturbed <= 4 else 1.0) * runs.seconds)

    cost = Simulation(by_size(), branches(4), readings=readings).measured()
    stages = [_candidate(0, 1), _candidate(2, 3), _candidate(4)]
    before = cost(stages)
    disturbed = 0
    assert cost.agrees(stages)
    assert disturbed > 4
    assert cost(stages).tolist() == before.tolist()
    assert cost.in_network(stages).tolist() == pytest.approx(before.tolist())
