# SPDX-License-Identifier: Apache-2.0
"""What is learned from measured stages, and that a search by it finds what measuring all finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.machine import Machine
from support.database import scheduler
from support.simulated_device import Simulation, ladder
from tvm_ios.backend.shared.stages import AnyStageSpec
from tvm_ios.errors import OptionError
from tvm_ios.graph.dag import Candidate, Dag
from tvm_ios.measure.learned import Examples, LatencyModel, LearnedCost
from tvm_ios.measure.learned.features import FEATURES, OperatorTable, StageFeatures
from tvm_ios.options import Options
from tvm_ios.search import ScheduleSpace

COLUMNS = (
    "seconds",
    "on_one_worker",
    "flops",
    "moved",
    "weights",
    "written",
    "tiles",
    "phases",
    "plane",
)


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
    features = StageFeatures(operators, workers=2, cache_bytes=1 << 20)
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
        assert known["seconds"] == pytest.approx(np.log(of["seconds"].sum()), rel=1e-5)
        assert serial == pytest.approx(of["seconds"].sum())
        assert known["balance"] == pytest.approx(2 * max(works) / sum(works), rel=1e-5)
        assert known["passed"] == pytest.approx(passed / of["moved"].sum(), rel=1e-5)
        shares = [known[name] for name in FEATURES if name.startswith("share_")]
        assert sum(shares) == pytest.approx(1.0, rel=1e-5)


def examples(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    rows = random.uniform(-1, 1, (count, len(FEATURES))).astype("float32")
    return rows, 0.2 * rows[:, 1] * (rows[:, 0] > 0) - 0.1 * rows[:, 2]


def test_a_model_learns_and_says_how_sure_it_is() -> None:
    rows, truth = examples(400, 1)
    new, expected = examples(1000, 2)
    noise = np.full(400, 0.01)
    measured = truth + noise * np.random.default_rng(3).standard_normal(400)
    likely, bound = LatencyModel(0, lcb_factor=0.0), LatencyModel(0, lcb_factor=2.0)
    before = bound.least(new)
    for model in (likely, bound):
        model.fit(rows, measured, noise)
    assert np.sqrt(np.mean((likely.least(new) - expected) ** 2)) < 0.5 * expected.std()
    assert np.mean(bound.least(new) <= expected) > 0.9
    assert np.mean(np.abs(bound.least(new) - expected)) < np.mean(np.abs(before - expected))


def test_equal_examples_and_seeds_give_equal_models() -> None:
    rows, truth = examples(60, 4)
    bounds = []
    for seed in (5, 5, 6):
        model = LatencyModel(seed, lcb_factor=0.5)
        model.fit(rows, truth, np.full(60, 0.02))
        bounds.append(model.least(rows))
    assert np.array_equal(bounds[0], bounds[1])
    assert not np.array_equal(bounds[0], bounds[2])


def test_what_is_ten_times_slower_does_not_spoil_the_rest() -> None:
    rows, truth = examples(200, 7)
    truth[::40] += np.log(10.0)
    model = LatencyModel(0, lcb_factor=0.0)
    model.fit(rows, truth, np.full(200, 0.01))
    off = np.delete(model.least(rows) - truth, np.arange(0, 200, 40))
    assert np.abs(np.median(off)) < 0.05


def truth(spec: AnyStageSpec) -> Mapping[str, float]:
    """Latencies that follow from a stage's groups and chains, as a model can learn."""
    work: dict[int, float] = {}
    for implementation, group in zip(spec.implementations, spec.groups, strict=True):
        work[group] = work.get(group, 0.0) + implementation.kernel.seconds
    longest, total = max(work.values()), sum(work.values())
    crowded = 1 + 0.1 * max(len(work) - 3, 0)
    return {"processors": crowded * max(longest, 0.4 * total)}


def _latency(simulation: Simulation, stages: Sequence[Candidate]) -> float:
    return sum(min(truth(simulation.spec(*stage.ops)).values()) for stage in stages)


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
    assert found[False] <= 1.06 * found[True]
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
    assert len(second.cost.examples) == learned > 0
    assert isinstance(second.cost.examples, Examples)
    second.search()
    assert len(second.cost.examples) >= learned


@pytest.mark.parametrize("lcb_factor", [-1.0, float("nan"), float("inf"), "much"])
def test_the_factor_is_a_number(lcb_factor: object) -> None:
    with pytest.raises(OptionError, match="lcb_factor must be a number of at least 0"):
        Options(lcb_factor=lcb_factor)
