# SPDX-License-Identifier: Apache-2.0
"""The store of object code: what is damaged, full or forbidden costs time and nothing else."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import tvm_ios
from support.networks import conv, relax_module
from tvm_ios.backend.cpu.code import objects
from tvm_ios.support.object_store import ObjectStore

KEY, OTHER = "ab" * 32, "cd" * 32
NOBODY = 65534  # a user without rights


def test_an_object_is_there_again(tmp_path: Path) -> None:
    ObjectStore(tmp_path / "made").put(KEY, b"code")
    store = ObjectStore(tmp_path / "made")
    assert store.get(KEY) == b"code"
    assert store.get(OTHER) is None
    assert store.usage().objects == 1


@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_a_damaged_object_is_none(tmp_path: Path, damage: str, caplog) -> None:
    store = ObjectStore(tmp_path)
    store.put(KEY, bytes(1000))
    (path,) = tmp_path.glob("*/*")
    content = bytearray(path.read_bytes())
    content[500] ^= 1
    path.write_bytes({"cut": bytes(600), "changed": bytes(content), "empty": b""}[damage])
    assert store.get(KEY) is None
    assert "is damaged" in caplog.text
    store.put(KEY, b"new")
    assert store.get(KEY) == b"new"


def test_a_file_of_another_key_is_none(tmp_path: Path) -> None:
    """As after a rename by somebody or by a file system that was repaired."""
    store = ObjectStore(tmp_path)
    store.put(KEY, b"code")
    store.put(OTHER, b"other code")
    mine, others = (tmp_path / key[:2] / f"{key[2:]}.object" for key in (KEY, OTHER))
    mine.write_bytes(others.read_bytes())
    assert store.get(KEY) is None
    assert store.get(OTHER) == b"other code"


def _give_away(path: Path, patch: pytest.MonkeyPatch) -> None:
    """Make a file another user's."""
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)
    else:
        patch.setattr(os, "geteuid", lambda: NOBODY)


@pytest.mark.parametrize("whose", ["another's", "the group's", "everybody's"])
@pytest.mark.parametrize("what", ["object", "directory"])
def test_what_others_may_have_written_is_not_used(
    whose: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog
) -> None:
    directory = tmp_path / "objects"
    store = ObjectStore(directory)
    store.put(KEY, b"code")
    place = directory if what == "directory" else directory / KEY[:2] / f"{KEY[2:]}.object"
    if whose == "another's":
        _give_away(place, monkeypatch)
    else:
        place.chmod(place.stat().st_mode | (0o020 if whose == "the group's" else 0o002))
    assert [store.get(KEY) for _ in range(2)] == [None, None]
    assert caplog.text.count("write to it") == 1
    store.put(OTHER, b"code")
    assert (store.get(OTHER) is None) == (what == "directory" or os.geteuid() == NOBODY)


@pytest.mark.parametrize("mask", [0o002, 0o000, 0o077])
def test_what_is_kept_is_this_users_alone(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        store = ObjectStore(tmp_path / "cache" / "objects")
        for content in (b"code", b"new code"):
            store.put(KEY, content)
            assert store.get(KEY) == content
    finally:
        os.umask(before)
    made = [store.directory, *store.directory.rglob("*")]
    assert len(made) == 3
    assert not [path for path in made if path.stat().st_mode & 0o077]


def test_nothing_older_is_kept_than_what_is_removed(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path)
    keys = [f"{i:02x}" * 32 for i in range(4)]
    for age, (key, size) in enumerate(zip(keys, (100, 100, 2000, 300), strict=True)):
        store.put(key, bytes(size))
        for path in tmp_path.glob(f"{key[:2]}/*"):
            os.utime(path, (1000 + age, 1000 + age))
    assert store.prune(1000).objects == 1
    assert [store.get(key) is not None for key in keys] == [False, False, False, True]


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path)
    keys = [f"{i:02x}" * 32 for i in range(6)]
    for age, key in enumerate(keys):
        store.put(key, bytes(900))
        for path in tmp_path.glob(f"{key[:2]}/*"):
            os.utime(path, (1000 + age, 1000 + age))
    assert store.get(keys[0]) is not None  # which makes it the last that was used
    ObjectStore(tmp_path, limit=3000).put("ff" * 32, bytes(100))
    left = [key for key in keys if store.get(key) is not None]
    assert keys[0] in left
    assert keys[1] not in left
    assert 0 < store.usage().num_bytes <= 3000


def _write(directory: Path, number: int) -> bool:
    store = ObjectStore(directory, limit=200_000)
    for i in range(40):
        key = f"{i % 8:02x}" * 32
        store.put(key, bytes([i % 8]) * 10_000)
        found = store.get(key)
        if found is not None and found != bytes([i % 8]) * 10_000:
            return False
    return True


def test_several_processes(tmp_path: Path) -> None:
    with ProcessPoolExecutor(3) as processes:
        assert all(processes.map(_write, [tmp_path] * 3, range(3)))
    assert not [path for path in tmp_path.glob("*/*") if path.suffix != ".object"]


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = ObjectStore(tmp_path / "file")
    store.put(KEY, b"code")
    assert store.get(KEY) is None
    assert ObjectStore(None).get(KEY) is None
    ObjectStore(None).put(KEY, b"code")


@pytest.fixture
def compile_network(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("TVM_IOS_OBJECTS", str(tmp_path / "objects"))
    mod = relax_module(lambda emit, x: emit(conv(emit(conv(x, 20, 3)), 20, 1)), (1, 20, 9, 9))
    x = np.random.default_rng(0).standard_normal((1, 20, 9, 9)).astype("float32")

    def compile_and_run() -> np.ndarray:
        return tvm_ios.compile(mod, search=False, threads=2)(x)

    return compile_and_run


def test_kernels_are_compiled_once(compile_network, monkeypatch, tmp_path: Path) -> None:
    compiled: list[str] = []
    original = objects._compiled
    monkeypatch.setattr(
        objects, "_compiled", lambda item, *rest: compiled.append(item.key) or original(item, *rest)
    )
    first = compile_network()
    count = len(compiled)
    assert count >= 2
    np.testing.assert_array_equal(compile_network(), first)
    assert len(compiled) == count

    key = compiled[0]
    (damaged,) = (tmp_path / "objects" / key[:2]).glob(f"{key[2:]}*")
    damaged.write_bytes(b"no object")
    np.testing.assert_array_equal(compile_network(), first)
    assert len(compiled) == count + 1


def test_no_store_is_needed(compile_network, monkeypatch) -> None:
    first = compile_network()
    monkeypatch.setenv("TVM_IOS_OBJECTS", "")
    np.testing.assert_array_equal(compile_network(), first)
    monkeypatch.setenv("TVM_IOS_OBJECTS", "/proc/none")
    np.testing.assert_array_equal(compile_network(), first)
