# SPDX-License-Identifier: Apache-2.0
"""The database where other machines may write: no log, whose index they would share."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from support.database import HERE, add_many, fork, key
from tvm_ios.database import MeasurementDatabase, filesystem


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.sqlite3"


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch):
    """A function that has the folder of the test be on a file system of this type."""
    listed = tmp_path.parent / f"{tmp_path.name}.mounts"

    def mount(kind: str) -> None:
        place = str(tmp_path.resolve()).replace(" ", "\\040")
        listed.write_text(f"/dev/vda / ext4 rw 0 0\nserver:/x {place} {kind} rw 0 0\n")
        monkeypatch.setattr(filesystem, "MOUNTS", listed)

    return mount


def journal_of(path: Path) -> str:
    """What the file itself says."""
    return {1: "journal", 2: "log"}[path.read_bytes()[18]]


def fill(path: Path, name: str = "a") -> None:
    with closing(MeasurementDatabase(path)) as database:
        database.add(HERE, key(name), "conv", {"tiles": [1.0]})


def keys(path: Path) -> set[str]:
    with closing(MeasurementDatabase(path)) as database:
        return {row.key for row in database.rows()}


@pytest.mark.parametrize(
    "kind",
    ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "lustre", "ceph", "virtiofs", "new"],
)
def test_no_log_where_others_may_write(kind: str, path: Path, mounted, monkeypatch) -> None:
    mounted(kind)
    connections, connect = [], sqlite3.connect

    def noted(*arguments: object, **options: object) -> sqlite3.Connection:
        connections.append(connect(*arguments, **options))
        return connections[-1]

    monkeypatch.setattr(sqlite3, "connect", noted)
    with closing(MeasurementDatabase(path)) as database:
        database.add(HERE, key("a"), "conv", {"tiles": [1.0]})
        assert sorted(os.listdir(path.parent)) == [path.name]
        (synchronous,) = connections[-1].execute("PRAGMA synchronous").fetchone()
    assert journal_of(path) == "journal"
    assert synchronous == 2  # full: nothing is checked in a log when it is opened again
    assert keys(path) == {key("a")}


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "tmpfs", "overlay"])
def test_a_log_where_nobody_else_writes(kind: str, path: Path, mounted) -> None:
    mounted(kind)
    fill(path)
    assert journal_of(path) == "log"


def test_a_database_that_moved_to_a_server(path: Path, mounted) -> None:
    fill(path)
    assert journal_of(path) == "log"
    mounted("nfs4")
    fill(path, "b")
    assert journal_of(path) == "journal"
    assert keys(path) == {key("a"), key("b")}
    mounted("ext4")
    fill(path, "c")
    assert journal_of(path) == "log"
    assert keys(path) == {key("a"), key("b"), key("c")}


def test_a_log_that_was_left_is_not_lost(path: Path, mounted) -> None:
    """Its last user was killed."""
    local = MeasurementDatabase(path)
    local.add(HERE, key("a"), "conv", {"tiles": [1.0]})
    moved = path.with_name("moved.sqlite3")
    for suffix in ("", "-wal"):
        Path(f"{moved}{suffix}").write_bytes(Path(f"{path}{suffix}").read_bytes())
    local.close()
    mounted("nfs4")
    assert keys(moved) == {key("a")}
    assert journal_of(moved) == "journal"


def test_several_processes_add_to_one_file(path: Path, mounted) -> None:
    mounted("nfs4")
    processes = [fork(add_many, path, name, 40)[0] for name in ("one", "two", "three")]
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    with closing(MeasurementDatabase(path)) as database:
        counts = [len(row.samples["tiles"]) for row in database.rows()]
    assert sorted(counts) == [1] * 60 + [3] * 20
    assert journal_of(path) == "journal"


def test_the_lock_is_given_back(path: Path, mounted) -> None:
    """Also by one that has just folded a log into the file."""
    fill(path)
    mounted("nfs4")
    with closing(MeasurementDatabase(path)), closing(sqlite3.connect(path, timeout=0)) as other:
        other.execute("UPDATE stage SET refined = 1")
        other.commit()


def test_the_kind_of_file_system_that_is_there(tmp_path: Path) -> None:
    assert filesystem.kind_of(Path("/proc/self/status")) == "proc"
    assert filesystem.kind_of(Path("/dev/shm/not-there/m.sqlite3")) == "tmpfs"
    kinds = {line.split()[2] for line in filesystem.MOUNTS.read_text().splitlines()}
    assert filesystem.kind_of(tmp_path) in kinds


def test_the_kind_that_mounts_tell(tmp_path: Path, monkeypatch) -> None:
    listed = tmp_path / "mounts"
    listed.write_text(
        "rootfs / rootfs rw 0 0\n/dev/sda / ext4 rw 0 0\nnas:/h /h nfs4 rw 0 0\n"
        "/dev/sdb /h/my\\040disk xfs rw 0 0\nbroken\n"
    )
    monkeypatch.setattr(filesystem, "MOUNTS", listed)
    told = {
        "/h2/x": "ext4", "/h/x": "nfs4", "/h": "nfs4", "/h/my disk/x/y": "xfs", "/h/my disc": "nfs4"
    }  # fmt: skip
    assert {path: filesystem.kind_of(Path(path)) for path in told} == told
    (tmp_path / "link").symlink_to("/h/x")
    assert filesystem.kind_of(tmp_path / "link" / "m.sqlite3") == "nfs4"
    monkeypatch.setattr(filesystem, "MOUNTS", tmp_path / "none")
    assert filesystem.kind_of(tmp_path) is None
    assert not filesystem.is_local(tmp_path)
