# SPDX-License-Identifier: Apache-2.0
"""What the search of a network states about its schedule."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import tvm

from support.networks import NATIVE
from support.random_blocks import price
from tvm_ios.compiler.check import check_schedule
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.frontend.models import load_model
from tvm_ios.graph.dag import Candidate
from tvm_ios.measure.given import GivenCost
from tvm_ios.options import Options
from tvm_ios.schedule import Schedule
from tvm_ios.search import best_first_block, cuts
from tvm_ios.search import network as network_search


@pytest.fixture(scope="module")
def mod() -> tvm.IRModule:
    return load_model("zoo:randwire_tiny")


def prices(_graph: object, candidates: Sequence[Candidate]) -> np.ndarray:
    return np.array([price(candidate) for candidate in candidates])


def search(mod: tvm.IRModule, size: int = 50) -> Schedule:
    scheduler = Scheduler.prepare(
        mod, NATIVE, cost_model=prices, options=Options(max_block_size=size)
    )
    schedule = scheduler.search()
    check_schedule(schedule, scheduler.graph)
    return schedule


def only_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_search, "_WHOLE", 1)
    monkeypatch.setattr(cuts, "WINDOW", 0)


def known_floors(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a third of a second per operator allows."""
    monkeypatch.setattr(GivenCost, "floors", lambda _self, ops: np.full(len(ops), 1 / 3))


def estimate(schedule: Schedule) -> float:
    return schedule.estimates["scheduled"]


def test_a_complete_search_is_proved(mod, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = search(mod)
    assert (whole.search_gap, whole.partition_gap) == (0.0, 0.0)
    only_blocks(monkeypatch)
    cut = search(mod, 12)
    assert (cut.search_gap, cut.partition_gap) == (0.0, None)
    assert estimate(cut) > estimate(whole)


def test_the_gap_of_a_best_first_search(mod, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds, and is unknown where the prices have no floors."""
    only_blocks(monkeypatch)
    best = search(mod, 20)
    monkeypatch.setattr(network_search, "_COMPLETE", 1)
    monkeypatch.setattr(best_first_block, "_CANDIDATES", 3)
    assert search(mod, 20).search_gap is None
    known_floors(monkeypatch)
    found = search(mod, 20)
    assert found.search_gap is not None
    assert 0.0 < estimate(found) - estimate(best) <= found.search_gap < estimate(found)
    monkeypatch.setattr(cuts, "WINDOW", 20)
    better = search(mod, 20)
    saved = estimate(found) - estimate(better)
    assert better.search_gap == pytest.approx(found.search_gap - saved)
    assert saved > 0.0


def test_a_best_first_search_may_prove_its_schedule(mod, monkeypatch: pytest.MonkeyPatch) -> None:
    only_blocks(monkeypatch)
    best = search(mod, 12)
    monkeypatch.setattr(network_search, "_COMPLETE", 1)
    monkeypatch.setattr(best_first_block, "_CANDIDATES", 10_000)
    monkeypatch.setattr(best_first_block, "_TRANSITIONS", 1_000_000)
    known_floors(monkeypatch)
    found = search(mod, 12)
    assert estimate(found) == pytest.approx(estimate(best))
    assert found.search_gap == pytest.approx(0.0)


def test_stages_around_cuts_are_searched_again(mod, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = search(mod)
    monkeypatch.setattr(network_search, "_WHOLE", 1)
    found = search(mod, 12)
    monkeypatch.setattr(cuts, "WINDOW", 0)
    assert estimate(whole) <= estimate(found) < estimate(search(mod, 12))
    assert found.partition_gap is None
