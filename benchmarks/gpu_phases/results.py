# SPDX-License-Identifier: Apache-2.0
"""The folder that steps work in, over as many calls as it takes, and the files that are published.

The folder of the state has ``results.jsonl``, ``log.txt`` and ``clocks.csv``; by the steps' names
``printed/``, ``stderr/``, ``schedules/``, ``timelines/`` and ``tests/``; and databases of what
searches have measured. Published are, written anew after each step:

``summary.md``
    Tables.
``results.jsonl``
    A line for the machine and one for each step: its status, its failure, and all samples.
``log.txt``, ``clocks.csv``
    What was done when; the GPU's clock, temperature and power, twice a second.
``raw.tar.gz``
    Schedules, timelines, outcomes of tests and what was written to standard error.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from gpu_phases.tables import summary

FACTS = "facts"
DONE, FAILED, CUT = "done", "failed", "cut"
"""What came of a step; one that was cut had too little time, and is begun again."""

_STEPS, _LOG, CLOCKS = "results.jsonl", "log.txt", "clocks.csv"
_PACKED = ("schedules", "timelines", "tests", "stderr")
_LARGEST = 24 << 20  # bytes of a file that is packed


class FolderError(Exception):
    """A folder that cannot be used; the message says why, and what to do."""


class Results:
    """What is known, and where it is kept.

    Parameters
    ----------
    state, out : Path
        Of the work, and of what is published.
    facts : mapping
        Of the machine; its ``device`` must be the same in all calls.

    Raises
    ------
    FolderError
        When the state is of another device, or a folder cannot be written to.
    """

    def __init__(self, state: Path, out: Path, facts: Mapping[str, Any]) -> None:
        self.state, self._out, self._begin = state, out, time.monotonic()
        with _writable(state):
            for folder in (out, *(state / name for name in ("printed", *_PACKED))):
                folder.mkdir(parents=True, exist_ok=True)
        known = read(state)
        device = known.pop(FACTS, {}).get("device", facts["device"])
        if device != facts["device"]:
            raise FolderError(
                f"{state} has results of {device}, and this is {facts['device']}; "
                "name another folder with --state."
            )
        self._facts = {"name": FACTS, **facts}
        self.steps = known

    def keep(self, name: str, record: Mapping[str, Any]) -> None:
        """Keep what came of a step, and publish all that is known.

        Raises
        ------
        FolderError
            When there is no room.
        """
        self.steps[name] = {"name": name, **record}
        self.publish()

    def forget(self, name: str) -> None:
        """Forget a step, and how far it came; what it has measured stays in the database."""
        self.steps.pop(name, None)
        self.printed(name).unlink(missing_ok=True)
        (self.state / "tests" / f"{name}.jsonl").unlink(missing_ok=True)

    def printed(self, name: str) -> Path:
        """Where a step's messages are."""
        return self.state / "printed" / f"{name}.jsonl"

    def said(self, name: str) -> Path:
        """Where a step's standard error is."""
        return self.state / "stderr" / f"{name}.txt"

    def log(self, text: str) -> None:
        """Tell whoever waits, and whoever reads it later."""
        line = f"[{time.monotonic() - self._begin:6.1f} s] {text}"
        print(line, flush=True)
        with _writable(self.state / _LOG), open(self.state / _LOG, "a") as file:
            print(line, file=file)

    def publish(self) -> None:
        """Write all files."""
        records = [self._facts, *self.steps.values()]
        lines = "".join(f"{json.dumps(record)}\n" for record in records)
        text = summary({record["name"]: record for record in records})
        _write(self.state / _STEPS, lambda draft: draft.write_text(lines))
        _write(self._out / _STEPS, lambda draft: draft.write_text(lines))
        _write(self._out / "summary.md", lambda draft: draft.write_text(text))
        for name in (_LOG, CLOCKS):
            source = self.state / name
            if source.exists():
                _write(self._out / name, partial(shutil.copyfile, source))
        _write(self._out / "raw.tar.gz", self._pack)

    def _pack(self, path: Path) -> None:
        with tarfile.open(path, "w:gz", compresslevel=3) as archive:
            for folder in _PACKED:
                for file in sorted((self.state / folder).iterdir()):
                    if file.stat().st_size <= _LARGEST:
                        archive.add(file, file.relative_to(self.state))


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """What is known by the names of steps, of a state or of what was published."""
    path = folder / _STEPS
    if not path.exists():
        return {}
    return {record["name"]: record for record in map(json.loads, path.read_text().splitlines())}


def _write(path: Path, make: Callable[[Path], object]) -> None:
    """Write a file, which is there whole or as it was before."""
    draft = path.with_name(f".{path.name}.new")
    with _writable(path):
        try:
            make(draft)
            os.replace(draft, path)
        finally:
            draft.unlink(missing_ok=True)


@contextmanager
def _writable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FolderError(
            f"{path} cannot be written: {error.strerror}; what was measured before is there. "
            "Make room, or name another folder, and run it again."
        ) from error
