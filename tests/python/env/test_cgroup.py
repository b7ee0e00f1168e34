# SPDX-License-Identifier: Apache-2.0
"""The cores that control groups grant, in both versions, nested, and seen from a container."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tvm_ios_env import cgroup

V2 = "30 24 0:26 {root} {mount} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "33 30 0:29 {root} {mount} rw - cgroup cgroup rw,cpu,cpuacct\n"
MEMORY = "34 30 0:30 / {mount} rw - cgroup cgroup rw,memory\n"


def system(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    membership: str,
    mounts: str,
    files: Mapping[str, str],
) -> float | None:
    """What is granted where ``/proc/self`` and a hierarchy look like this."""
    process, mount = folder / "process", folder / "hierarchy"
    process.mkdir()
    mount.mkdir()
    (process / "cgroup").write_text(membership)
    (process / "mountinfo").write_text(mounts.replace("{mount}", str(mount)))
    for name, text in files.items():
        path = mount / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    monkeypatch.setattr(cgroup, "_PROCESS", process)
    return cgroup.granted_cores()


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"a/b/cpu.max": "150000 100000"}, 1.5),
        ({"a/b/cpu.max": "max 100000"}, None),
        ({"a/b/cpu.max": "max 100000", "a/cpu.max": "300000 100000"}, 3.0),
        ({"a/b/cpu.max": "400000 100000", "a/cpu.max": "50000 100000"}, 0.5),
        ({"other/cpu.max": "50000 100000"}, None),
        ({"a/b/cpu.max": "nonsense"}, None),
        ({"a/b/cpu.max": "100000 0"}, None),
        ({}, None),
    ],
)
def test_version_2(
    files: Mapping[str, str], cores: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = V2.replace("{root}", "/")
    assert system(tmp_path, monkeypatch, "0::/a/b\n", mounts, files) == cores


@pytest.mark.parametrize(
    ("quota", "outer", "cores"), [("250000", "-1", 2.5), ("-1", "200000", 2.0), ("-1", "-1", None)]
)
def test_version_1(
    quota: str,
    outer: str,
    cores: float | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = {
        "pod/one/cpu.cfs_quota_us": quota,
        "pod/one/cpu.cfs_period_us": "100000",
        "pod/cpu.cfs_quota_us": outer,
        "pod/cpu.cfs_period_us": "100000",
    }
    membership = "4:memory:/pod\n2:cpu,cpuacct:/pod/one\n0::/\n"
    mounts = MEMORY + V1.replace("{root}", "/")
    assert system(tmp_path, monkeypatch, membership, mounts, files) == cores


def test_a_container_sees_its_own_group_at_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = V1.replace("{root}", "/docker/1234")
    files = {"cpu.cfs_quota_us": "150000", "cpu.cfs_period_us": "100000"}
    assert system(tmp_path, monkeypatch, "2:cpu:/docker/1234\n", mounts, files) == 1.5


def test_a_group_of_another_namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = V2.replace("{root}", "/")
    files = {"cpu.max": "250000 100000"}
    assert system(tmp_path, monkeypatch, "0::/../elsewhere\n", mounts, files) == 2.5


def test_no_linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "_PROCESS", tmp_path / "none")
    assert cgroup.granted_cores() is None
