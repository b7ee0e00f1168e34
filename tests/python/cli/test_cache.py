# SPDX-License-Identifier: Apache-2.0
"""``tvm-ios cache``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tvm_ios.cli.main import main
from tvm_ios.support.object_store import ObjectStore


@pytest.fixture
def store(tmp_path: Path, monkeypatch) -> ObjectStore:
    monkeypatch.setenv("TVM_IOS_OBJECTS", str(tmp_path / "objects"))
    store = ObjectStore(tmp_path / "objects")
    for i in range(3):
        store.put(f"{i:02x}" * 32, bytes(600_000))
    return store


def test_info(store: ObjectStore, capsys) -> None:
    assert main(["cache", "info"]) == 0
    assert capsys.readouterr().out.startswith("3 kernels, 1.8 MB of at most ")
    assert main(["cache", "info", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["objects"] == 3
    assert printed["directory"] == str(store.directory)


def test_prune(store: ObjectStore, capsys) -> None:
    assert main(["cache", "prune", "--megabytes", "1"]) == 0
    assert capsys.readouterr().out == "removed 2 kernels; 1 are left\n"
    assert main(["cache", "prune", "--megabytes", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"removed": 1, "objects": 0, "num_bytes": 0}
    assert store.usage().objects == 0
    assert main(["cache", "prune"]) == 4


def test_without_a_directory(monkeypatch, capsys) -> None:
    monkeypatch.setenv("TVM_IOS_OBJECTS", "")
    assert main(["cache", "info"]) == 0
    assert capsys.readouterr().out == "no object code is kept\n"
    assert main(["cache", "prune", "--megabytes", "0"]) == 0
