# SPDX-License-Identifier: Apache-2.0
"""The simulation of more workers than there are cores: what is recorded, moved, and waited for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

import scaling
from simulation import forecast as forecasts
from simulation import machine
from simulation.events import simulate
from simulation.forecast import FOUND, SEQUENTIAL, forecast
from simulation.machine import Machine
from simulation.prices import searched
from simulation.recording import Launch, Recording, record
from simulation.traffic import Traffic
from support.networks import NATIVE, conv, few_stages, relax_module
from tvm_ios.backend.cpu.code.waits import Wait, WaitPlan
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.options import Options
from tvm_ios.target import available_cores

IDEAL = Machine(1e30, 0.0, 0.0, 0.0, 0.0, 1.0, 64, 1 << 40)


def launch(seconds, plan: WaitPlan, *, moved=0.0, weights=0.0, weight_bytes: int = 0) -> Launch:
    """A launch whose shares take these seconds, position by position."""
    table = np.array(seconds, "float64")
    full = [np.full(table.shape, value) for value in (moved, weights)]
    return Launch(plan, table, Traffic(*full), weight_bytes)


def test_workers_wait_for_what_they_read() -> None:
    plan = WaitPlan(frozenset(), (Wait(1, 0, 1, 1),))
    outcome = simulate([launch([[1, 5], [3, 1]], plan)], IDEAL)
    assert outcome.latency == 5 + 3  # the first worker goes on when the second has ended
    assert outcome.computing == (4 + 6) / 2
    assert outcome.waiting == 8 - 5
    free = simulate([launch([[1, 5], [3, 1]], WaitPlan(frozenset(), ()))], IDEAL)
    assert free.latency == 6


def test_all_workers_meet_at_barriers() -> None:
    plan = WaitPlan(frozenset([1]), ())
    slow = Machine(1e30, 0.0, 0.0, 0.25, 0.5, 1.0, 64, 1 << 40)
    outcome = simulate(2 * [launch([[1, 5], [3, 1]], plan)], slow)
    assert outcome.latency == 2 * (2 * 0.5 + 5 + 2 * 0.25 + 3)


def test_what_cores_share_takes_time() -> None:
    alone = launch([[4.0]], WaitPlan(frozenset(), ()), weights=100.0, weight_bytes=100)
    both = launch([[4.0, 4.0]], WaitPlan(frozenset(), ()), moved=8.0, weights=100.0,
                  weight_bytes=200)  # fmt: skip
    small = Machine(20.0, 0.125, 0.0, 0.0, 0.0, 1.5, 4, cache_bytes=150)
    assert simulate([alone], small).latency == 4.0
    outcome = simulate([both], small)  # two of four cores are busy: half of the way to 1.5
    assert outcome.computing == pytest.approx(4 * 1.25)
    assert outcome.moving == 1.0
    assert outcome.memory == pytest.approx(2 * 100 / 20 - 5)
    cached = Machine(20.0, 0.125, 0.0, 0.0, 0.0, 1.5, 4, cache_bytes=300)
    assert simulate([both], cached).memory == 0.0


def prepared(body, workers: int, image: tuple[int, ...]) -> Scheduler:
    target = tvm.target.Target({**NATIVE.export(), "num-cores": workers})
    options = Options(strategies=("concurrent",), winograd=False)
    mod = relax_module(body, image)
    return Scheduler.prepare(mod, target, cost_model=few_stages, options=options)


def chain(emit, x: relax.Expr) -> relax.Expr:
    return emit(conv(emit(conv(x, 64, 3, seed=1)), 64, 3, seed=2))


def recorded(workers: int) -> Recording:
    scheduler = prepared(chain, workers, (1, 16, 12, 12))
    return record(scheduler, scheduler.unsearched())


@pytest.mark.parametrize("workers", [1, 4])
def test_every_share_is_recorded_on_one_core(workers: int) -> None:
    found = recorded(workers)
    (one,) = found.launches
    assert one.seconds.shape[1] == workers
    assert (one.seconds.max(axis=1) > 0).all()
    assert len(found.kernel_seconds) == 2
    total = sum(found.kernel_seconds.values())
    assert total == pytest.approx(one.seconds.sum(), rel=0.3)  # empty shares count in one of them


def test_kernels_of_another_machine() -> None:
    scheduler = prepared(chain, 4, (1, 16, 12, 12))
    schedule = scheduler.unsearched()
    first, second = (i.kernel.key for i in scheduler.stage_builder.lowered.implementations if i)
    found = record(scheduler, schedule, {first: 8.0, second: 4.0, "of another network": 1.0})
    assert found.kernel_seconds == {first: 8.0, second: 4.0}
    (one,) = found.launches
    assert one.seconds[0].sum() == pytest.approx(8.0)
    assert one.seconds.sum() == pytest.approx(12.0, rel=0.3)


def test_what_moves_is_what_others_wrote() -> None:
    (alone,), (four,) = recorded(1).launches, recorded(4).launches
    assert alone.traffic.moved.sum() == 0
    first, second, _ = four.traffic.moved  # and the result is brought into NCHW
    assert not first.any()
    assert second.tolist() == [3 / 4 * 64 * 12 * 12 * 4] * 4  # channels of the three others
    assert alone.traffic.weights.sum() > 9 * 64 * 64 * 4
    # What all read comes from memory once, and each waits for its part.
    np.testing.assert_allclose(four.traffic.weights.sum(1), alone.traffic.weights.sum(1))


def test_operators_that_leave_workers_idle_share_a_stage() -> None:
    def body(emit, x):
        arms = [emit(conv(x, 32, 1, seed=seed)) for seed in range(4)]
        return emit(relax.op.concat(arms, axis=1))

    scheduler = prepared(body, 8, (1, 16, 6, 6))
    kernels = {i.kernel.key: 1e-3 for i in scheduler.stage_builder.lowered.implementations if i}
    schedule = searched(scheduler, kernels, IDEAL)
    groups = [len(stage.groups) for stage in schedule.stages]
    assert max(groups) > 1


@pytest.fixture
def ideal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measuring a machine, and two workers on it, takes long where others use it."""
    monkeypatch.setattr(scaling, "this_machine", lambda: IDEAL)
    monkeypatch.setattr(forecasts, "available_cores", lambda: 1)


def test_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_TRIES", 1)
    found = machine.this_machine()
    assert found.cores == available_cores()
    assert 1e8 < found.bandwidth < 1e13
    assert found.clock >= 1
    assert found.transfer >= 0
    if found.cores > 1:
        assert found.signal > 0
        assert found.barrier(8) == 8 * found.barrier_per_worker > 0


def test_forecasts_beside_measurements(tmp_path: Path, ideal: None, capsys) -> None:
    file = tmp_path / "found.json"
    scaling.main(["randwire_tiny", "--simulate", "4", "--json", str(file)])
    header, _, *rows = capsys.readouterr().out.splitlines()
    assert [row.split("|")[2].strip() for row in rows] == ["1", "2", "4"]
    assert "speed-up" in header
    off_by = [row.split("|")[-2].strip() for row in rows]
    assert off_by[0].endswith("%")
    assert off_by[1:] == ["–", "–"]  # nothing was measured on more workers than there are cores
    found = json.loads(file.read_text())
    assert set(found["simulated"]["randwire_tiny"]) == {"1", "2", "4"}
    assert found["machine"]["cores"] == IDEAL.cores


def test_figures_of_another_machine(tmp_path: Path, ideal: None) -> None:
    """What moves takes a second a byte there, and nothing is measured here."""
    file, other = tmp_path / "found.json", tmp_path / "machine.json"
    other.write_text('{"transfer": 1.0}')
    arguments = ["randwire_tiny", "--simulate", "2", "--json", str(file), "--machine", str(other)]
    scaling.main(arguments)
    found = json.loads(file.read_text())
    assert found["machine"]["transfer"] == 1.0
    entries = found["simulated"]["randwire_tiny"]
    assert all(not entry["measured"] for entry in entries.values())
    assert entries["2"]["simulated"][SEQUENTIAL]["moving"] > 1


def test_a_search_is_simulated_where_there_are_several_workers() -> None:
    alone, four = (forecast("randwire_tiny", workers, IDEAL) for workers in (1, 4))
    assert set(alone.simulated) == set(alone.measured) == {SEQUENTIAL}
    assert set(four.simulated) == {SEQUENTIAL, FOUND}
    assert four.scheduled.latency <= four.simulated[SEQUENTIAL].latency
