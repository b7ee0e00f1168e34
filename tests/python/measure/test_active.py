# SPDX-License-Identifier: Apache-2.0
"""Which stages a learned cost model has measured besides those of the schedule."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from support.database import key
from support.simulated_device import Simulation, branches, by_size, ladder
from tvm_ios.database import MeasurementDatabase
from tvm_ios.graph.dag import Candidate
from tvm_ios.measure.learned import LearnedCost
from tvm_ios.measure.learned.features import FEATURES
from tvm_ios.measure.learned.layout import feature_layout
from tvm_ios.options import Options
from tvm_ios.search import ScheduleSpace


def priced(simulation: Simulation) -> tuple[LearnedCost, list[Candidate]]:
    """The cost model of a network, and all stages of several operators, of which it knows none."""
    cost = simulation.cost()
    assert isinstance(cost, LearnedCost)
    candidates = ScheduleSpace(simulation.scheduler.graph.dag).candidates
    cost.latency_bounds(candidates)
    return cost, [c for c in candidates if len(c.ops) > 1]


def resolved(cost: LearnedCost, *wanted: Candidate) -> list[Candidate]:
    """What is measured when these stages are wanted."""
    before = len(cost.resolved)
    cost.resolve(wanted)
    return list(cost.resolved)[before:]


def teach(path: Path, simulation: Simulation) -> None:
    """Let the database have stages of another network."""
    random = np.random.default_rng(0)
    device = simulation.scheduler.backend.identity()
    with closing(MeasurementDatabase(path)) as database:
        for i in range(20):
            database.add(device, key(i), "a stage", {"processors": [1e-3] * 5})
            features = (
                float(feature_layout()),
                99.0,
                2e-3,
                1.0,
                *random.normal(size=len(FEATURES)),
            )
            database.describe(device, {key(i): features})


def test_all_stages_of_a_small_network_are_measured_first() -> None:
    cost, stages = priced(Simulation(by_size(), branches(4)))
    assert sorted(resolved(cost)) == sorted(stages)


def test_random_stages_of_all_sizes_are_measured_first() -> None:
    cost, stages = priced(Simulation(by_size(), ladder()))
    first = resolved(cost)
    assert 24 <= len(first) < 50
    assert {len(c.ops) for c in first} == {len(c.ops) for c in stages}


def test_a_model_that_was_taught_measures_fewer_stages_first(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite3"
    teach(path, Simulation(by_size()))
    cost, stages = priced(Simulation(by_size(), ladder(), options=Options(database=path)))
    sizes = len({len(c.ops) for c in stages})
    assert 12 <= len(resolved(cost)) <= 12 + sizes


def test_one_stage_in_ten_is_drawn_at_random() -> None:
    """At most one a time, and none that shares an operator with what is wanted."""
    cost, stages = priced(Simulation(by_size(), ladder()))
    many = dict.fromkeys([*stages[:300], *stages[-100:]])
    assert set(many) <= set(resolved(cost, *many))
    pairs = [c for c in stages if len(c.ops) == 2 and c not in cost.resolved]
    drawn = []
    for wanted in pairs[:12]:
        first, *beside = resolved(cost, wanted)
        assert first == wanted
        assert len(beside) <= 1
        assert all(len(c.ops) > 1 and not set(c.ops) & set(wanted.ops) for c in beside)
        drawn += beside
    assert len(drawn) > 4


def test_nothing_is_drawn_at_random_while_few_stages_were_measured() -> None:
    cost, stages = priced(Simulation(by_size(), ladder()))
    resolved(cost)
    wanted = next(c for c in stages if len(c.ops) == 2 and c not in cost.resolved)
    assert resolved(cost, wanted) == [wanted]


def test_promising_stages_that_share_no_operator_are_measured_beside() -> None:
    cost, stages = priced(Simulation(by_size(), ladder()))
    resolved(cost)
    pairs = [c for c in stages if len(c.ops) == 2 and c not in cost.resolved]
    wanted, before = pairs[0], len(cost.resolved)
    cost.resolve([wanted], lambda: [*cost.resolved, *pairs])
    measured = list(cost.resolved)[before:]
    assert measured[0] == wanted
    assert 2 <= len(measured) <= 5
    ops = [op for c in measured for op in c.ops]
    assert len(ops) == len(set(ops))


def test_what_was_chosen_at_random_is_told_in_the_database(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite3"
    options = Options(database=path)
    cost, stages = priced(Simulation(by_size(), ladder(), options=options))
    first = resolved(cost)
    chosen = [c for c in stages if c not in cost.resolved][:40]
    resolved(cost, *chosen)
    cost.resolve([*first, *chosen])  # fits, which describes the rest
    with closing(MeasurementDatabase(path)) as database:
        sampled = [row.features[3] for row in database.rows() if row.features]
    assert len(sampled) == len(cost.examples) == len(first) + len(chosen)
    assert sum(sampled) == len(first)
    again, _ = priced(Simulation(by_size(), ladder(), options=options))
    assert len(again.examples) == len(cost.examples)


def test_bounds_become_latencies() -> None:
    cost, stages = priced(Simulation(by_size(), branches(3)))
    bounds = cost.latency_bounds(stages[:3])
    assert not bounds.known().any()
    cost.resolve(stages[:2])
    assert bounds.known().tolist()[:2] == [True, True]
    assert bounds.bounds()[:2] == pytest.approx(cost(stages[:2]))
    assert bounds.stated()[:2] == pytest.approx(bounds.bounds()[:2])
