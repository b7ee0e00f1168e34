# SPDX-License-Identifier: Apache-2.0
"""Replacement of several files together, which survives a kill of the process.

Drafts lie in a hidden folder beside the files that they replace. Before the first replacement, a
record of all replacements is written. A process that finds the record of a killed process performs
the remaining replacements. Without a record it removes the drafts. If the files lie in several
directories, each has such a folder. The first one holds the record and is the leader. The other
folders follow it: they are told the leader's path before the record is written.
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
"""The beginning of the folders' names."""

_RECORD, _LEADER = ".record", ".leader"

_Identity = list[int] | None


def commit(drafts: Sequence[Path], targets: Sequence[Path]) -> None:
    """Record that ``drafts`` will replace ``targets``, whatever happens to this process."""
    leader, *others = dict.fromkeys(draft.parent for draft in drafts)
    for folder in others:
        _write(folder / _LEADER, str(leader))
    moves = [
        [str(draft), str(target), _identity(target)]
        for draft, target in zip(drafts, targets, strict=True)
    ]
    _write(leader / _RECORD, json.dumps(moves))


def revoke(drafts: Sequence[Path]) -> None:
    """Undo :func:`commit`, after the targets of ``drafts`` were restored."""
    (drafts[0].parent / _RECORD).unlink(missing_ok=True)


def settle(directory: Path) -> None:
    """Complete replacements that killed processes began in ``directory``, and remove their folders.

    If this process may not write there, nothing is done.
    """
    for folder in abandoned(directory, PREFIX):
        if _follow(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _follow(folder: Path) -> bool:
    """Perform the recorded replacements of a folder; return whether nothing is left to do."""
    leader = _read(folder / _LEADER)
    if leader is None:
        return _complete(folder)
    if not os.path.isdir(leader):  # completed, or never committed
        return True
    with locked(Path(leader)) as mine:
        return mine and _complete(Path(leader))


def _complete(leader: Path) -> bool:
    """Perform the remaining replacements unless a target has changed since."""
    remaining = [move for move in _recorded(leader) if move[0].exists()]
    if any(_identity(target) != before for _, target, before in remaining):
        return True
    try:
        for draft, target, _ in remaining:
            os.replace(draft, target)
    except OSError:  # the directory is not writable now
        return False
    return True


def _recorded(leader: Path) -> list[tuple[Path, Path, _Identity]]:
    """Return drafts, targets and the targets' identities; nothing unless :func:`commit` wrote them.

    A record may come from an archive of other files, so it must not affect files elsewhere.
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
    """Return whether a draft lies beside its target, in the leader's folder or a following one."""
    folder = draft.parent
    follows = folder == leader or (
        folder.name.startswith(PREFIX) and _read(folder / _LEADER) == str(leader)
    )
    return follows and target == folder.parent / draft.name


def _identity(path: Path) -> _Identity:
    """Return what distinguishes a file from another one at the same path."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return [found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size]


def _write(path: Path, text: str) -> None:
    """Write a small file atomically and flush it to disk."""
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
    """Flush a file or directory to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
