# SPDX-License-Identifier: Apache-2.0
"""Files take their places together, whole, and with the mode that was there."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import stat
import sys
import tempfile
from pathlib import Path

import pytest

from tvm_ios.support.files import replacing
from tvm_ios.support.folders import TemporaryFolder
from tvm_ios.support.transaction import PREFIX, settle


def write(*paths: Path, text: str = "new") -> None:
    with replacing(*paths) as drafts:
        for draft in drafts:
            draft.write_text(text)


def test_the_mode_is_kept(tmp_path: Path) -> None:
    path, new = tmp_path / "m.so", tmp_path / "new.so"
    path.write_text("old")
    path.chmod(0o750)
    before = os.umask(0o027)
    try:
        write(path, new)
    finally:
        os.umask(before)
    assert path.read_text() == new.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert stat.S_IMODE(new.stat().st_mode) == 0o640


@pytest.mark.parametrize("there", [True, False])
def test_all_or_none(tmp_path: Path, there: bool) -> None:
    """The second cannot take its place, as a directory has come there meanwhile."""
    first, second = tmp_path / "m.so", tmp_path / "s.json"
    if there:
        first.write_text("old")

    def write_both() -> None:
        with replacing(first, second) as drafts:
            for draft in drafts:
                draft.write_text("new")
            second.mkdir()

    with pytest.raises(IsADirectoryError):
        write_both()
    assert first.exists() == there
    assert not there or first.read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"s.json", *(["m.so"] if there else [])}


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "m.so"
    path.write_text("old")

    def write_half() -> None:
        with replacing(path) as (draft,):
            draft.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("m.so", "old")]


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real.so").write_text("old")
    (tmp_path / "link.so").symlink_to("real.so")
    write(tmp_path / "link.so")
    assert (tmp_path / "link.so").is_symlink()
    assert (tmp_path / "real.so").read_text() == "new"


def test_they_are_on_the_disk_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (calls.append("sync"), sync(fd)))
    monkeypatch.setattr(os, "replace", lambda a, b: (calls.append("replace"), replace(a, b)))
    write(tmp_path / "one")
    assert calls == ["sync", "replace", "sync"]
    calls.clear()
    write(tmp_path / "one", tmp_path / "two")
    record = ["sync", "replace", "sync"]
    assert calls == ["sync", "sync", *record, "replace", "replace", "sync"]


def killed(*paths: Path, move: int) -> bool:
    """Write ``paths`` in a process that is killed before a renaming; whether it came so far."""
    child = os.fork()
    if child == 0:
        moves = iter(range(1, move + 1))

        def before(event: str, _arguments: tuple) -> None:
            if event == "os.rename" and next(moves) == move:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(before)
        write(*paths)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == -signal.SIGKILL


@pytest.mark.parametrize("directories", [("a", "a"), ("a", "b")], ids=["together", "apart"])
@pytest.mark.parametrize("first", [0, 1], ids=["settled by the first", "by the second"])
@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("move", range(1, 6))
def test_a_process_that_is_killed(
    tmp_path: Path, directories: tuple[str, str], there: bool, first: int, move: int
) -> None:
    """Before each renaming: whoever comes next finds both as they were, or both new."""
    paths = [tmp_path / d / name for d, name in zip(directories, ("m.so", "s.json"), strict=True)]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        if there:
            path.write_text("old")
    renamings = 3 if directories == ("a", "a") else 4
    assert killed(*paths, move=move) == (move <= renamings)
    for path in (paths[first], paths[1 - first]):
        settle(path.parent)
    found = {path.read_text() if path.exists() else None for path in paths}
    committed = move > renamings - 2
    assert found == {"new" if committed else "old" if there else None}
    left = {path for directory in set(directories) for path in (tmp_path / directory).iterdir()}
    assert left <= set(paths)


def test_what_was_changed_since_is_left_alone(tmp_path: Path) -> None:
    """The user has put another file in the place of one that a killed process was to replace."""
    paths = [tmp_path / "m.so", tmp_path / "s.json"]
    assert killed(*paths, move=3)
    assert [path.exists() for path in paths] == [True, False]
    paths[1].write_text("the user's")
    settle(tmp_path)
    assert paths[1].read_text() == "the user's"
    assert set(tmp_path.iterdir()) == set(paths)


@pytest.mark.parametrize("record", ["outside", "elsewhere in the folder", "damaged", "no list"])
def test_a_record_of_a_stranger_is_not_followed(record: str, tmp_path: Path) -> None:
    """An archive may have brought it along: it puts nothing where nothing of it belongs."""
    inside, outside = tmp_path / "unpacked", tmp_path / "outside"
    folder = inside / f"{PREFIX}x.tmp"
    folder.mkdir(parents=True)
    draft = folder / "outside"
    draft.write_text("a stranger's")
    targets = {"outside": outside, "elsewhere in the folder": inside / "other"}
    moves = [[str(draft), str(targets.get(record, outside)), None]]
    texts = {"damaged": "{", "no list": "[1]"}
    (folder / ".record").write_text(texts.get(record, json.dumps(moves)))
    settle(inside)
    assert set(tmp_path.iterdir()) == {inside}
    assert list(inside.iterdir()) == []


def test_a_process_that_lives_keeps_its_drafts(tmp_path: Path) -> None:
    paths = [tmp_path / "m.so", tmp_path / "s.json"]
    with replacing(*paths) as drafts:
        for draft in drafts:
            draft.write_text("new")
        settle(tmp_path)
    assert {path.read_text() for path in paths} == {"new"}


@pytest.mark.parametrize("path", [None, "draft"])
def test_a_full_disk_is_told_by_the_file(tmp_path: Path, path: str | None) -> None:
    def write() -> None:
        with replacing(tmp_path / "m.so") as (draft,):
            raise OSError(errno.ENOSPC, "No space left", None if path is None else str(draft))

    with pytest.raises(OSError, match=re.escape(str(tmp_path / "m.so"))):
        write()


def test_temporary_folders_of_killed_processes_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kept = TemporaryFolder()
    child = os.fork()
    if child == 0:
        _folder = TemporaryFolder()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert len(list(tmp_path.iterdir())) == 2
    other = TemporaryFolder()
    assert set(tmp_path.iterdir()) == {kept.path, other.path}
