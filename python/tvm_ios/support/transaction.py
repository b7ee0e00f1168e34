# SPDX-License-Identifier: Apache-2.0
"""Files that are replaced together, also where the process that does is killed meanwhile.

Drafts lie in a hidden folder beside what they replace. Before the first takes its place, a record
says which go where. A process that finds the record of one that was killed puts the remaining ones
in their places; without a record it removes the drafts. Where files lie in several directories,
each has such a folder. The record is in the first, and the others, which are told where that is
before it is written, follow it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from .folders import abandoned, locked

PREFIX = ".tvm-ios-"
"""What the folders' names begin with."""

_RECORD, _LEADER = ".record", ".leader"

_Identity = list[int] | None


def commit(drafts: Sequence[Path], targets: Sequence[Path]) -> None:
    """Have ``drafts`` take the places of ``targets``, whatever happens to this process."""
    leader, *others = dict.fromkeys(draft.parent for draft in drafts)
    for folder in others:
        _write(folder / _LEADER, str(leader))
    moves = [
        [str(draft), str(target), _identity(target)]
        for draft, target in zip(drafts, targets, strict=True)
    ]
    _write(leader / _RECORD, json.dumps(moves))


def revoke(drafts: Sequence[Path]) -> None:
    """Have :func:`commit` undone, as the places of ``drafts`` are as they were."""
    (drafts[0].parent / _RECORD).unlink(missing_ok=True)


def settle(directory: Path) -> None:
    """Complete what processes that were killed have begun in ``directory``, and remove the rest.

    Where this process may not write there, nothing is done.
    """
    for folder in abandoned(directory, PREFIX):
        if _follow(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _follow(folder: Path) -> bool:
    """Do what is recorded; whether nothing is left to do."""
    leader = _read(folder / _LEADER)
    if leader is None:
        return _complete(folder)
    if not os.path.isdir(leader):  # all was completed, or nothing was to be
        return True
    with locked(Path(leader)) as mine:
        return mine and _complete(Path(leader))


def _complete(leader: Path) -> bool:
    """Put the drafts that remain in their places, unless somebody has changed these since."""
    remaining = [move for move in _recorded(leader) if move[0].exists()]
    if any(_identity(target) != before for _, target, before in remaining):
        return True
    try:
        for draft, target, _ in remaining:
            os.replace(draft, target)
    except OSError:  # a directory that cannot be written to, for now
        return False
    return True


def _recorded(leader: Path) -> list[tuple[Path, Path, _Identity]]:
    """Drafts, where they belong, and what was there; nothing where :func:`commit` wrote no such.

    A record may have come with other files, in an archive: it has no say of files elsewhere.
    """
    record = _read(leader / _RECORD)
    if record is None:
        return []
    try:
        moves = [
            (Path(draft), Path(target), before) for draft, target, before in json.loads(record)
        ]
    except (ValueError, TypeError):
        return []
    return moves if all(_belongs(draft, target, leader) for draft, target, _ in moves) else []


def _belongs(draft: Path, target: Path, leader: Path) -> bool:
    """Whether a draft lies in the leader's folder, or in one that follows it, beside its place."""
    folder = draft.parent
    follows = folder == leader or (
        folder.name.startswith(PREFIX) and _read(folder / _LEADER) == str(leader)
    )
    return follows and target == folder.parent / draft.name


def _identity(path: Path) -> _Identity:
    """What tells a file from one that has taken its place."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return [found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size]


def _write(path: Path, text: str) -> None:
    """A small file that is whole on the disk, or not there."""
    draft = path.with_name(f"{path.name}.new")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
    sync(path.parent)


def _read(path: Path) -> str | None:
    with suppress(FileNotFoundError):
        return path.read_text(encoding="utf-8")
    return None


def sync(path: Path) -> None:
    """Wait until what was written to a file or directory is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
