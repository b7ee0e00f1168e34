# SPDX-License-Identifier: Apache-2.0
"""What a search learns from is of any network and device; its prices are of this device only."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from support.database import HERE, key, scheduler
from tvm_ios.database import DeviceIdentity, MeasurementDatabase
from tvm_ios.measure.cache import MeasurementCache, WorkloadKey
from tvm_ios.measure.learned import Examples, LearnedCost
from tvm_ios.measure.learned import layout as layouts
from tvm_ios.measure.learned.features import FEATURES
from tvm_ios.measure.learned.layout import feature_layout

FOUR_THREADS = replace(HERE, threads=4)
ANOTHER_CPU = replace(HERE, cpu="another CPU", tvm_ios="0.0.1")
A_GPU = replace(HERE, cpu="a GPU", target='{"kind": "cuda", "arch": "sm_90"}')


@pytest.fixture
def database(tmp_path: Path) -> Iterator[MeasurementDatabase]:
    with closing(MeasurementDatabase(tmp_path / "m.sqlite3")) as opened:
        yield opened


def store(
    database: MeasurementDatabase,
    device: DeviceIdentity,
    name: str,
    seconds: float,
    *,
    serial: float = 2e-3,
    network: int = 1,
    layout: int | None = None,
) -> None:
    """Store a stage with the features that a search on the device would have described it by."""
    features = (float(feature_layout() if layout is None else layout), float(network), serial, 1.0)
    database.add(device, key(name), name, {"tiles": [seconds] * 5})
    database.describe(device, {key(name): (*features, *map(float, range(len(FEATURES))))})


def test_other_networks_threads_and_cpus_are_examples(database: MeasurementDatabase) -> None:
    store(database, HERE, "here", 1e-3)
    store(database, FOUR_THREADS, "four threads", 0.5e-3, serial=0.7e-3)
    store(database, ANOTHER_CPU, "another CPU", 4e-3, serial=5e-3)
    store(database, A_GPU, "a GPU", 1e-6)
    store(database, HERE, "of other features", 1e-3, layout=1)
    others = Examples(MeasurementCache(database, HERE), network=2).others()
    assert sorted(np.exp(others.log_ratio)) == pytest.approx([0.5, 0.5 / 0.7, 0.8])
    assert others.features.tolist() == [[float(i) for i in range(len(FEATURES))]] * 3


def test_what_failed_is_no_example(database: MeasurementDatabase) -> None:
    for name in ("partly", "wholly"):
        store(database, HERE, name, 1e-3)
    database.add(HERE, key("partly"), "partly", {"bands": []})
    database.add(HERE, key("wholly"), "wholly", {"tiles": []})
    others = Examples(MeasurementCache(database, HERE), network=2).others()
    assert np.exp(others.log_ratio) == pytest.approx([0.5])
    assert np.isfinite(others.error).all()


def test_earlier_stages_of_this_network_are_its_own(database: MeasurementDatabase) -> None:
    store(database, HERE, "earlier", 1e-3, network=7)
    store(database, FOUR_THREADS, "earlier", 1e-3, network=7)
    examples = Examples(MeasurementCache(database, HERE), network=7)
    assert len(examples) == 1
    assert len(examples.others()) == 1


def test_the_device_itself_comes_first(database: MeasurementDatabase) -> None:
    for number in range(3):
        store(database, ANOTHER_CPU, f"there {number}", 1e-3)
    for number in range(2):
        store(database, HERE, f"here {number}", 1e-3)
    found = [row.stage for row in database.described(HERE, limit=3)]
    assert sorted(found[:2]) == ["here 0", "here 1"]
    assert found[2].startswith("there")


@pytest.mark.parametrize("device", [FOUR_THREADS, ANOTHER_CPU])
def test_another_device_prices_nothing(
    database: MeasurementDatabase, device: DeviceIdentity
) -> None:
    workload = WorkloadKey(("stage",), (), "rest", "a stage")
    MeasurementCache(database, device).add(workload, {"tiles": [1e-3]})
    cache = MeasurementCache(database, HERE)
    cache.lookup([workload])
    assert not cache.samples(workload.key)
    cache = MeasurementCache(database, device)
    cache.lookup([workload])
    assert cache.samples(workload.key)


def test_a_search_learns_from_another_cpu_but_measures(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite3"
    first = scheduler(path, winograd=False)
    first.search()
    assert isinstance(first.cost, LearnedCost)
    assert len(first.cost.examples) > 0
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE device SET cpu = 'another CPU'")
        connection.execute(
            "UPDATE stage SET samples = '{\"tiles\": [1e-9]}' WHERE features NOT NULL"
        )
    second = scheduler(path, winograd=False)
    found = second.search()
    assert isinstance(second.cost, LearnedCost)
    assert len(second.cost.examples.others()) == len(first.cost.examples)
    assert found.measurements >= len(second.graph.operators) - 1
    assert all(stage.seconds > 1e-8 for stage in found.stages[:-1])


def test_the_layout_changes_with_the_code_of_the_features(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = feature_layout.__wrapped__()
    source = Path(layouts.__file__).parent
    for name in layouts.SOURCES:
        (tmp_path / name).write_text((source / name).read_text())
    monkeypatch.setattr(layouts, "__file__", str(tmp_path / "layout.py"))
    assert feature_layout.__wrapped__() == before
    changed = tmp_path / "features.py"
    changed.write_text("# a comment\n" + changed.read_text())
    assert feature_layout.__wrapped__() == before
    changed.write_text(changed.read_text().replace("machine.flops", "(2 * machine.flops)"))
    assert feature_layout.__wrapped__() != before
