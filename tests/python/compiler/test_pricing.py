# SPDX-License-Identifier: Apache-2.0
"""The cost model that a search on a device has, by the options and by what was measured before."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.simulated_device import Simulation, by_size
from tvm_ios.measure.cost import MeasuredCost
from tvm_ios.measure.learned import LearnedCost
from tvm_ios.options import Options


@pytest.mark.parametrize(("measure_all", "model"), [(True, MeasuredCost), (False, LearnedCost)])
def test_the_options_choose_the_cost_model(measure_all: bool, model: type) -> None:
    assert isinstance(Simulation(by_size(), options=Options(measure_all=measure_all)).cost(), model)


def measurements(path: Path, conditions: str) -> int:
    """How many stages a search measures, where weights are read from this level of memory."""
    simulation = Simulation(by_size(), options=Options(measure_all=True, database=path))
    simulation.scheduler.backend.conditions = lambda _: conditions
    cost = simulation.cost()
    simulation.search(cost)
    return cost.measurements


def test_conditions_are_part_of_what_is_looked_up(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite3"
    first = measurements(path, "L2")
    assert first > 0
    assert measurements(path, "L2") == 0
    assert measurements(path, "memory") == first
