# SPDX-License-Identifier: Apache-2.0
"""Files take their places together, whole, and with the mode that was there."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tvm_ios.files import replacing


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
    write(tmp_path / "one", tmp_path / "two")
    assert calls == ["sync", "sync", "replace", "replace", "sync"]
