# SPDX-License-Identifier: Apache-2.0
"""What is learned from measured stages, and that a search by it finds what measuring all finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.machine import Machine
from support.database import scheduler
from support.simulated_device import Simulation, ladder
from tvm_ios.errors import OptionError
from tvm_ios.graph.dag import Candidate, Dag
from tvm_ios.lowering.machine import Machine as Figures
from tvm_ios.lowering.stages import AnyStage
from tvm_ios.measure.learned import Examples, LatencyModel, LearnedCost
from tvm_ios.measure.learned.features import FEATURES, StageFeatures
from tvm_ios.measure.learned.operator_table import COLUMNS, OperatorTable
from tvm_ios.measure.learned.training_set import TrainingSet
from tvm_ios.options import Options
from tvm_ios.schedule.versions import modernized_options
from tvm_ios.search import ScheduleSpace


def table(num_ops: int, edges: list[tuple[int, int]], seed: int) -> OperatorTable:
    random = np.random.default_rng(seed)
    values = {name: random.uniform(1, 9, num_ops) for name in COLUMNS}
    values["tiles"] = np.ceil(values["tiles"])
    array = np.array(edges, "int64").reshape(-1, 2)
    return OperatorTable(values, random.integers(0, 10, num_ops), array)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]]]:
    num_ops = draw(st.integers(1, 9))
    pairs = [(u, v) for v in range(num_ops) for u in range(v)]
    return num_ops, [pair for pair in pairs if draw(st.integers(0, 3)) == 0]


@settings(max_examples=60, deadline=None)
@given(graphs(), st.integers(0, 9))
def test_features_are_those_of_each_stage_alone(
    graph: tuple[int, list[tuple[int, int]]], seed: int
) -> None:
    """Groups, chains and what passes between operators, by networkx, stage by stage."""
    num_ops, edges = graph
    operators = table(num_ops, edges, seed)
    candidates = ScheduleSpace(Dag(num_ops, edges)).candidates
    machine = Figures(2, cache_bytes=1 << 20, flops=0.5, bandwidth=2.0, barrier=0.1)
    features = StageFeatures(operators, machine)
    rows = features(candidates)
    assert rows.shape == (len(candidates), len(FEATURES))
    assert np.isfinite(rows).all()
    whole = nx.DiGraph(edges)
    whole.add_nodes_from(range(num_ops))
    for row, serial, candidate in zip(rows, features.serial(candidates), candidates, strict=True):
        stage, ops = whole.subgraph(candidate.ops), list(candidate.ops)
        known = dict(zip(FEATURES, row.tolist(), strict=True))
        of = {name: column[ops] for name, column in operators.values.items()}
        groups = [sorted(group) for group in nx.weakly_connected_components(stage)]
        works = [operators.values["on_one_worker"][group].sum() for group in groups]
        passed = sum(operators.values["written"][u] for u in stage if stage.out_degree(u))
        assert known["operators"] == len(ops)
        assert known["groups"] == len(groups)
        assert known["depth"] == nx.dag_longest_path_length(stage) + 1
        total = of["seconds"].sum()
        assert serial == pytest.approx(total)
        assert known["barriers"] == pytest.approx(np.log(0.1 * len(ops) / total), rel=1e-5)
        assert known["arithmetic"] == pytest.approx(
            np.log(of["flops"].sum() / 0.5 / total), rel=1e-4
        )
        assert known["transfer"] == pytest.approx(np.log(of["moved"].sum() / 2 / total), rel=1e-4)
        assert known["weights"] == pytest.approx(np.log(of["weights"].sum() / 2 / total), rel=1e-4)
        longest = max(max(works), sum(works) / 2)
        assert known["by_groups"] == pytest.approx(np.log(longest / total), rel=1e-4, abs=1e-6)
        assert known["by_tiles"] == pytest.approx(
            np.log(by_levels(stage, operators) / total), rel=1e-4, abs=1e-6
        )
        assert known["tiles"] == pytest.approx(np.log1p(of["tiles"].sum() / 2), rel=1e-5)
        assert known["balance"] == pytest.approx(2 * max(works) / sum(works), rel=1e-5)
        assert known["passed"] == pytest.approx(passed / of["moved"].sum(), rel=1e-5)
        shares = [known[name] for name in FEATURES if name.startswith("share_")]
        assert sum(shares) == pytest.approx(1.0, rel=1e-5)


def by_levels(stage: nx.DiGraph, operators: OperatorTable) -> float:
    """Return the time of a stage whose levels take their work, or their longest tile."""
    levels: dict[int, list[int]] = {}
    for op in nx.topological_sort(stage):
        above = [depth for depth, ops in levels.items() for u in ops if stage.has_edge(u, op)]
        levels.setdefault(max(above, default=0) + 1, []).append(op)
    alone, tiles = operators.values["on_one_worker"], operators.values["tiles"]
    return sum(
        max(sum(alone[op] for op in ops) / 2, *(alone[op] / tiles[op] for op in ops))
        for ops in levels.values()
    )


def test_features_do_not_depend_on_the_speed_of_the_machine() -> None:
    """A machine that is ten times as fast in every respect has the same features."""
    operators = table(6, [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)], 0)
    candidates = ScheduleSpace(Dag(6, operators.edges.tolist())).candidates
    slow = Figures(4, cache_bytes=1 << 20, flops=2.0, bandwidth=3.0, barrier=0.1)
    fast = Figures(4, cache_bytes=1 << 20, flops=20.0, bandwidth=30.0, barrier=0.01)
    times = {name: operators.values[name] / 10 for name in ("seconds", "on_one_worker")}
    quick = OperatorTable({**operators.values, **times}, operators.classes, operators.edges)
    rows = StageFeatures(operators, slow)(candidates)
    assert np.allclose(rows, StageFeatures(quick, fast)(candidates), rtol=1e-5, atol=1e-6)
    assert not np.allclose(rows, StageFeatures(operators, fast)(candidates), rtol=1e-2)


def test_every_feature_distinguishes_stages() -> None:
    rows = []
    for seed in range(4):
        operators = table(7, [(0, 2), (1, 2), (2, 4), (3, 5)], seed)
        operators.values["plane"] = np.arange(7.0) % 2
        candidates = ScheduleSpace(Dag(7, operators.edges.tolist())).candidates
        merged = [c._replace(strategy="merge") for c in candidates[:9]]
        machine = Figures(2 + seed, cache_bytes=10, flops=2.0, bandwidth=3.0, barrier=0.1)
        rows.append(StageFeatures(operators, machine)([*candidates, *merged]))
    spread = np.ptp(np.concatenate(rows), axis=0)
    assert not [name for name, width in zip(FEATURES, spread, strict=True) if width == 0]


def examples(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    rows = random.uniform(-1, 1, (count, len(FEATURES))).astype("float32")
    return rows, 0.2 * rows[:, 1] * (rows[:, 0] > 0) - 0.1 * rows[:, 2]


def training(rows: np.ndarray, measured: np.ndarray, error: float = 0.01) -> TrainingSet:
    count = len(measured)
    return TrainingSet(rows, measured, np.full(count, error), np.ones(count, bool))


def test_a_model_learns() -> None:
    rows, truth = examples(400, 1)
    new, expected = examples(1000, 2)
    model = LatencyModel(0)
    before = model.least(new)
    model.fit(training(rows, truth + 0.01 * np.random.default_rng(3).standard_normal(400)))
    assert np.sqrt(np.mean((model.predict(new) - expected) ** 2)) < 0.5 * expected.std()
    assert np.mean(np.abs(model.least(new) - expected)) < np.mean(np.abs(before - expected))


def test_equal_examples_and_seeds_give_equal_models() -> None:
    rows, truth = examples(60, 4)
    others, known = examples(80, 5)
    bounds = []
    for seed in (5, 5, 6):
        model = LatencyModel(seed)
        model.learn(training(others, known))
        model.fit(training(rows, truth))
        bounds.append(model.least(rows))
    assert np.array_equal(bounds[0], bounds[1])
    assert not np.array_equal(bounds[0], bounds[2])


def test_what_is_ten_times_slower_does_not_spoil_the_rest() -> None:
    rows, truth = examples(200, 7)
    truth[::40] += np.log(10.0)
    model = LatencyModel(0)
    model.fit(training(rows, truth))
    off = np.delete(model.predict(rows) - truth, np.arange(0, 200, 40))
    assert np.abs(np.median(off)) < 0.05


def test_precise_measurements_count_more() -> None:
    """Half of the measurements are off by much, and say so."""
    rows, truth = examples(400, 8)
    new, expected = examples(1000, 9)
    error = np.where(np.arange(400) % 2, 0.01, 0.4)
    measured = truth + error * np.random.default_rng(10).standard_normal(400)
    wrong = {}
    for name, claimed in (("told", error), ("equal", np.full(400, 0.1))):
        model = LatencyModel(0)
        model.fit(TrainingSet(rows, measured, claimed, np.ones(400, bool)))
        wrong[name] = float(np.sqrt(np.mean((model.predict(new) - expected) ** 2)))
    assert wrong["told"] < 0.7 * wrong["equal"]


def test_every_feature_can_be_learned_from() -> None:
    rows, _ = examples(150, 11)
    new, _ = examples(300, 12)
    for column, name in enumerate(FEATURES):
        model = LatencyModel(0)
        model.fit(training(rows, 0.2 * np.sign(rows[:, column])))
        predicted, expected = model.predict(new), 0.2 * np.sign(new[:, column])
        assert np.corrcoef(predicted, expected)[0, 1] > 0.7, name


def truth(stage: AnyStage) -> Mapping[str, float]:
    """Latencies that follow from a stage's groups and chains, as a model can learn."""
    work: dict[int, float] = {}
    for implementation, group in zip(stage.implementations, stage.groups, strict=True):
        work[group] = work.get(group, 0.0) + implementation.kernel.seconds
    longest, total = max(work.values()), sum(work.values())
    crowded = 1 + 0.1 * max(len(work) - 3, 0)
    return {"processors": crowded * max(longest, 0.4 * total)}


def _latency(simulation: Simulation, stages: Sequence[Candidate]) -> float:
    return sum(min(truth(simulation.stage_of(*stage.ops)).values()) for stage in stages)


def test_the_search_finds_what_measuring_all_finds(tmp_path: Path) -> None:
    found, measured = {}, {}
    for measure_all in (False, True):
        database = tmp_path / f"{measure_all}.sqlite3"
        options = Options(measure_all=measure_all, database=database)
        simulation = Simulation(truth, ladder(), options=options)
        cost = simulation.cost()
        assert isinstance(cost, LearnedCost) is not measure_all
        stages = simulation.search(cost)
        found[measure_all], measured[measure_all] = _latency(simulation, stages), cost.measurements
        again = Simulation(truth, ladder(), options=options)
        cost = again.cost()
        assert again.search(cost) == stages
        assert cost.measurements == 0
    assert found[False] <= 1.035 * found[True]
    assert measured[False] < 0.5 * measured[True]


def test_measuring_again_changes_the_bounds_of_other_stages() -> None:
    simulation = Simulation(truth, ladder(), Machine(jitter=0.1))
    cost = simulation.cost()
    assert isinstance(cost, LearnedCost)
    bounds = cost.latency_bounds([Candidate((0, 1, 2, 3), "concurrent")])
    stages = simulation.search(cost)
    # The search has measured all it wanted again; what is chosen by other prices, not yet.
    rest = [c for c in cost.resolved if c not in stages and len(c.ops) == 2][:3]
    before, revision = bounds.bounds().copy(), cost.revision
    assert cost.resolve(rest) > 0
    assert cost.revision > revision
    assert bounds.bounds() != before
    assert cost.resolve(rest) == 0


@pytest.mark.slow
def test_stages_of_other_networks_are_learned_from(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite3"
    first = scheduler(path, winograd=False)
    first.search()
    learned = len(first.cost.examples)
    second = scheduler(path, winograd=False, max_num_groups=1)
    assert isinstance(second.cost, LearnedCost)
    assert len(second.cost.examples) == learned > 0
    assert isinstance(second.cost.examples, Examples)
    second.search()
    assert len(second.cost.examples) >= learned


@pytest.mark.parametrize("lcb_factor", [-1.0, float("nan"), float("inf"), "much"])
def test_the_factor_is_a_number(lcb_factor: object) -> None:
    with pytest.raises(OptionError, match="lcb_factor must be a number of at least 0"):
        Options(lcb_factor=lcb_factor)


@pytest.mark.parametrize("coverage", [0.4, 1.0, float("nan"), "most"])
def test_the_coverage_is_a_share(coverage: object) -> None:
    with pytest.raises(OptionError, match="coverage must be a number from"):
        Options(coverage=coverage)


def test_the_factor_of_earlier_releases_is_a_coverage() -> None:
    assert Options(lcb_factor=0.0).coverage == pytest.approx(0.5)
    assert Options(lcb_factor=1.0).coverage == pytest.approx(0.8413, abs=1e-4)
    assert Options(lcb_factor=9).coverage == 0.99
    assert replace(Options(lcb_factor=1.0), seed=1).coverage == Options(lcb_factor=1.0).coverage
    assert Options(**modernized_options({"caution": 0.0})).coverage == 0.5
