# SPDX-License-Identifier: Apache-2.0
"""A search with a database: it measures what is missing, and ends where it ended before."""

from __future__ import annotations

import logging
import os
import resource
import signal
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import tvm

from support.database import HERE, branches, digests, key, scheduler, searched, start
from support.networks import NATIVE
from tvm_ios import DatabaseError
from tvm_ios.backend.cpu.measure import builder
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.database import MeasurementDatabase, Row
from tvm_ios.lowering.cold import arena_bytes, level_of
from tvm_ios.measure.cache import MeasurementCache, WorkloadKey
from tvm_ios.ops.tensor import TensorSpec
from tvm_ios.transform import InterOperatorSchedule

NOBODY = 65534  # a user without rights


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Scheduler]:
    """A database, and the search that filled it."""
    path = tmp_path_factory.mktemp("filled") / "m.sqlite3"
    return path, searched(scheduler(path))


def _rows(path: Path) -> dict[str, Row]:
    with closing(MeasurementDatabase(path)) as database:
        return {row.key: row for row in database.rows()}


def test_a_warm_search_measures_nothing(
    filled: tuple[Path, Scheduler], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, cold = filled
    assert cold.cost.measurements > 0
    before = _rows(path)
    monkeypatch.setattr(builder, "compiled", None)  # whoever compiles a kernel fails
    warm = searched(scheduler(path))
    assert warm.cost.measurements == 0
    for found in ("search", "greedy", "sequential"):
        one, other = getattr(cold, found)(), getattr(warm, found)()
        assert one.stages == other.stages
        assert one.operators == other.operators
        assert one.estimates == other.estimates
    assert _rows(path) == before


def test_another_device_is_measured_anew(filled: tuple[Path, Scheduler]) -> None:
    path, _ = filled
    one_core = tvm.target.Target({**NATIVE.export(), "num-cores": 1})
    made = scheduler(path, one_core, max_num_groups=1, max_group_size=1)
    made.search()
    assert made.cost.measurements > 0
    assert {row.device.threads for row in _rows(path).values()} == {1, NATIVE.attrs["num-cores"]}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The database of a process that was killed in its search, and the digests that it had."""
    path = tmp_path_factory.mktemp("killed") / "m.sqlite3"
    search = f"dies_after(8)\nsearched(scheduler({str(path)!r}, winograd=False))"
    process = start(f"print(*digests(), flush=True)\n{search}", PYTHONHASHSEED="7")
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL
    return path, printed.split()


def test_keys_are_the_same_in_another_process(killed: tuple[Path, list[str]]) -> None:
    here = digests()
    assert killed[1] == here
    assert len(set(here)) == len(here)


def test_a_killed_search_is_resumed(killed: tuple[Path, list[str]]) -> None:
    path, _ = killed
    known = _rows(path)
    made = searched(scheduler(path, winograd=False))
    whole = _rows(path)
    assert made.cost.measurements > 0
    assert len(known) == 8 < len(whole)
    for k, row in known.items():  # what was known was not measured again, except to refine it
        assert _begins(whole[k], row)
        assert whole[k].samples == row.samples or whole[k].refined


def _begins(row: Row, beginning: Row) -> bool:
    return all(row.samples[d][: len(times)] == times for d, times in beginning.samples.items())


def test_where_weights_lie_is_part_of_what_is_measured() -> None:
    core = 1 << 20
    sizes = [arena_bytes([TensorSpec((n,))] * 3) for n in (100, 1 << 20, 1 << 26)]
    assert [level_of(n, core) for n in sizes] == ["L2", "L3", "memory"]
    workload = WorkloadKey("a", (), "a", "conv")
    texts = {MeasurementCache(conditions=level).digest(workload) for level in ("memory", "L3")}
    assert len(texts) == 2


def test_the_pass_uses_a_database(filled: tuple[Path, Scheduler]) -> None:
    scheduling = InterOperatorSchedule(NATIVE, database=filled[0])
    scheduling(branches())
    assert scheduling.schedule.measurements == 0
    estimates = scheduling.schedule.estimates  # "found" where the sequential schedule was faster
    found = estimates.get("found", estimates["scheduled"])
    assert found == filled[1].search().estimates["scheduled"]


def test_a_file_that_is_no_database_is_refused_by_the_pass(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("notes")
    with pytest.raises(DatabaseError, match="not a measurement database"):
        InterOperatorSchedule(NATIVE, database=path)(branches())
    assert path.read_text() == "notes"


@contextmanager
def _full_disk(size: int) -> Iterator[None]:
    """Files cannot grow beyond ``size`` bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@contextmanager
def _without_rights() -> Iterator[None]:
    """As a user who may read files, and write none."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


def _measured_on(cache: MeasurementCache, caplog: pytest.LogCaptureFixture) -> None:
    """Add measurements that cannot be kept: the search has them, and hears of it once."""
    with caplog.at_level(logging.WARNING):
        for i in range(3):
            cache.add(WorkloadKey(i, (), i, "conv" * 10_000), {"tiles": [1.0 + i]})
    assert [cache.samples(i) for i in range(3)] == [{"tiles": [1.0 + i]} for i in range(3)]
    (warning,) = caplog.messages
    assert warning.endswith("The search continues without it.")


def test_a_full_disk_does_not_end_the_search(tmp_path: Path, caplog) -> None:
    database = MeasurementDatabase(tmp_path / "m.sqlite3")
    database.add(HERE, key("a"), "conv", {"tiles": [1.0]})
    with _full_disk(30_000):
        _measured_on(MeasurementCache(database, HERE), caplog)
    assert [row.key for row in database.rows()] == [key("a")]
    database.add(HERE, key("b"), "conv", {"tiles": [1.0]})  # there is space again
    assert len(list(database.rows())) == 2
    database.close()


def test_a_full_disk_is_left_as_it_is(tmp_path: Path) -> None:
    with _full_disk(1000), pytest.raises(DatabaseError, match="cannot be created"):
        MeasurementDatabase(tmp_path / "m.sqlite3")
    assert os.listdir(tmp_path) == []


def test_a_file_that_cannot_be_written_is_read(caplog) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory, workload = Path(name), WorkloadKey("a", (), "a", "conv")
        path = directory / "m.sqlite3"
        with closing(MeasurementDatabase(path)) as database:
            MeasurementCache(database, HERE).add(workload, {"tiles": [1.0]})
        content = path.read_bytes()
        path.chmod(0o444)
        directory.chmod(0o777)
        with _without_rights(), closing(MeasurementDatabase(path)) as database:
            cache = MeasurementCache(database, HERE)
            cache.lookup([workload])
            assert cache.samples("a") == {"tiles": [1.0]}
            _measured_on(cache, caplog)
        assert path.read_bytes() == content
