# SPDX-License-Identifier: Apache-2.0
"""Searches replayed on the tables that are kept, and how tables are made."""

from __future__ import annotations

import json
import math
import shutil
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import search_quality
from replay import networks
from replay.derived import derive
from replay.known import KnownCost, all_candidates, network_search
from replay.machine import MACHINES, Machine, Neighbour, drift, jump
from replay.networks import NETWORKS, prepare
from replay.record import combined, record
from replay.recorded import Recorded
from replay.search import replay
from replay.table import Table
from support.numpy_backend import KIND
from support.simulated_device import branches
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.database import MeasurementDatabase
from tvm_ios.graph.dag import Candidate

SQUEEZENET = search_quality.TABLES / "squeezenet.npz"
REGRETS = {"none": 0.01, "noise": 0.02, "bursts": 0.02, "drift": 0.02}


@pytest.fixture(scope="module")
def squeezenet() -> Recorded:
    table = Table.load(SQUEEZENET)
    return Recorded(prepare("squeezenet", table.target), table)


@pytest.fixture(scope="module")
def cell() -> Recorded:
    table = Table.load(search_quality.TABLES / "nasnet_cell.npz")
    return Recorded(prepare("nasnet_cell", table.target), table)


@pytest.mark.parametrize("noise", MACHINES)
def test_the_search_of_a_small_network(squeezenet: Recorded, noise: str) -> None:
    outcomes = [replay(squeezenet, MACHINES[noise](seed), seed) for seed in (0, 1)]
    assert all(0 <= outcome.regret <= REGRETS[noise] for outcome in outcomes)
    assert all(abs(outcome.overestimate) < 0.15 for outcome in outcomes)


def test_the_search_of_a_cell_measures_little(cell: Recorded) -> None:
    outcome = replay(cell, MACHINES["none"](0), 0)
    assert 0 <= outcome.regret <= 0.03
    assert outcome.measured_share < 0.06
    assert outcome.coverage90 > 0.85


def test_a_search_considers_no_stage_that_no_table_has(cell: Recorded) -> None:
    """The cell has a cut, and most stages across it depend on the schedule of its blocks."""
    known = KnownCost(cell.true_seconds, cell.scheduler)
    network_search(cell.scheduler).run(known)
    assert set(known.candidates) <= set(all_candidates(cell.scheduler))


def test_the_best_schedule_is_no_slower_than_any(squeezenet: Recorded) -> None:
    graph = squeezenet.scheduler.graph
    alone = [Candidate((op.index,), "concurrent") for op in graph.operators]
    assert squeezenet.optimum < sum(map(squeezenet.true_seconds, alone))


def _can_gain(device: Recorded, candidate: Candidate) -> bool:
    """Return whether a stage may save more than 1% of its operators' time."""
    builder = device.stage_builder
    stage = builder.stage_of(candidate.ops, candidate.strategy)
    singles = [Candidate((op,), "concurrent") for op in candidate.ops]
    seconds = {builder.stage_of(c.ops, c.strategy).key: device.true_seconds(c) for c in singles}
    alone = {i.kernel.key: device.alone(i.kernel) for i in stage.implementations}
    if len(singles) == 1:
        return not stage.is_noop
    return builder.max_saving(stage, seconds, alone) > 0.011 * sum(seconds.values())


def test_every_table_is_of_its_network() -> None:
    paths = list(search_quality.TABLES.glob("*.npz"))
    assert {path.stem for path in paths} == set(NETWORKS)
    for path in paths:
        table = Table.load(path)
        device = Recorded(prepare(path.stem, table.target), table)
        assert all(not _can_gain(device, c) for c in device.candidates if c not in table.seconds)


def test_a_table_of_another_network_is_refused(squeezenet: Recorded) -> None:
    with pytest.raises(ValueError, match="record it again"):
        Recorded(squeezenet.scheduler, Table("llvm", ((0, 1),), (1.0, 1.0), {}))


def test_a_recorded_table_is_what_was_measured(tmp_path: Path) -> None:
    scheduler = Scheduler.prepare(branches(3), KIND)
    table = record(scheduler)
    assert set(table.seconds) == set(all_candidates(scheduler))
    stage = {c.ops: seconds for c, seconds in table.seconds.items()}
    kernels = [i.kernel for i in scheduler.stage_builder.lowered.implementations]
    assert table.on_one_worker == pytest.approx([kernel.seconds for kernel in kernels])
    longest = max(kernel.seconds for kernel in kernels[:3])
    assert stage[0, 1, 2]["processors"] == pytest.approx(longest)
    path = tmp_path / "t.npz"
    table.save(path)
    again = Table.load(path)
    assert (again.target, again.edges) == (table.target, table.edges)
    assert again.on_one_worker == pytest.approx(table.on_one_worker)
    assert list(again.seconds) == list(table.seconds)
    for candidate, row in table.seconds.items():
        assert again.seconds[candidate] == pytest.approx(row, rel=1e-3)


def test_the_passes_of_a_recording_are_combined() -> None:
    pair, other = (Candidate(ops, "concurrent") for ops in ((0, 1), (2, 3)))
    disturbed = {pair: {"tiles": 9.0, "groups": 2.0}, other: {"tiles": 5.0}}
    passes = [{pair: {"tiles": 1.0}}, disturbed, {pair: {"tiles": 1.2}}]
    assert combined(passes) == {pair: {"tiles": 1.2, "groups": 2.0}, other: {"tiles": 5.0}}


def test_each_pass_of_a_recording_measures_anew_unless_it_was_interrupted(tmp_path: Path) -> None:
    scheduler, path = Scheduler.prepare(branches(3), KIND), tmp_path / "m.sqlite3"

    def rows(passes: int) -> dict[str, object]:
        record(scheduler, path, passes)
        with closing(MeasurementDatabase(path)) as database:
            return {row.key: row.samples for row in database.rows()}

    first, both = rows(1), rows(2)
    assert len(both) == 2 * len(first)
    assert rows(2) == both


def test_derived_latencies(squeezenet: Recorded) -> None:
    """They differ from stage to stage, and are the same every time."""
    scheduler = squeezenet.scheduler
    alone = [1e-4] * len(scheduler.graph.operators)
    tables = [derive(scheduler, alone) for _ in range(2)]
    assert tables[0] == tables[1]
    for candidate, row in tables[0].seconds.items():
        assert "tiles" in row
        # Two workers share an operator, of which row strips save up to 8%; noise is 6% at most.
        assert all(0.43e-4 <= s <= 1.3e-4 * len(candidate.ops) for s in row.values())


def test_figures_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["replay", str(SQUEEZENET), "--seeds", "1", "--noise", "drift"]
    search_quality.main([*arguments, "--json"])
    (figures,) = json.loads(capsys.readouterr().out)["squeezenet"].values()
    assert {"median_regret", "p95_regret", "measured_share", "coverage90"} <= figures.keys()
    search_quality.main(arguments)
    assert "| squeezenet, drift |" in capsys.readouterr().out


def test_what_other_networks_save_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search after that of the same network has nothing left to measure."""
    again = tmp_path / "again.npz"
    shutil.copy(SQUEEZENET, again)
    monkeypatch.setattr(networks, "NETWORKS", {**NETWORKS, "again": NETWORKS["squeezenet"]})
    arguments = ["carry", str(SQUEEZENET), str(again), "--seeds", "1"]
    search_quality.main([*arguments, "--json"])
    curves = json.loads(capsys.readouterr().out)
    assert set(curves) == {"squeezenet", "again"}
    for alone, after in curves.values():
        assert alone["measured_share"] > 0.5
        assert after["measured_share"] == 0
        assert after["median_regret"] == alone["median_regret"]
    search_quality.main(arguments)
    assert "| squeezenet |" in capsys.readouterr().out


def test_a_machine_takes_its_time() -> None:
    machine = Machine([jump(1.0)])
    assert machine.work(np.array([0.4, 0.6, 0.2]))[0].tolist() == pytest.approx([0.4, 0.6, 2.0])
    assert machine.now == pytest.approx(3.0)
    machine.sleep(1.0)
    assert machine.now == pytest.approx(4.0)


def test_what_makes_a_machine_slower() -> None:
    times = np.linspace(0.0, 200.0, 20001)
    assert drift()(times).max() == pytest.approx(1.15)
    assert drift()(times).min() == 1.0
    neighbour = Neighbour(3)
    slow = neighbour(times)
    assert set(slow.tolist()) == {1.0, 2.0}
    assert np.mean(slow == 2.0) == pytest.approx(0.2, abs=0.08)  # its share of the time
    assert neighbour(times).tolist() == slow.tolist()
    assert not math.isclose(np.mean(Neighbour(4)(times)), np.mean(slow), rel_tol=1e-6)
