# SPDX-License-Identifier: Apache-2.0
"""The folder that results are kept in, of one device, over as many phases as it takes.

``about.json``
    The device, and what is installed.
``steps/NAME.json``
    What came of a step: its status, its result or a sentence, and the GPU before and after it.
``schedules/``, ``timelines/``, ``tests/``, ``peers/``, ``stderr/``
    What steps have written besides, by their names.
``database.sqlite3``
    What searches have measured.
``clocks.csv``
    The GPU's clock, temperature and power, twice a second.
``summary.md``
    Tables, written anew after each step.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DONE, FAILED, CUT = "done", "failed", "cut"
"""What came of a step; one that was cut had too little time, and is begun again."""

_FOLDERS = ("steps", "schedules", "timelines", "tests", "peers", "stderr")


class FolderError(Exception):
    """A folder of results that cannot be used; the message says why, and what to do."""


class Results:
    """What is known, and where it is kept.

    Parameters
    ----------
    folder : Path
    about : mapping
        What must be the same in all phases: the device.

    Raises
    ------
    FolderError
        When the folder has the results of another device, or cannot be written to.
    """

    def __init__(self, folder: Path, about: Mapping[str, Any]) -> None:
        self.folder = folder
        try:
            for name in _FOLDERS:
                (folder / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FolderError(f"{folder} cannot be written to: {error.strerror}.") from error
        found = {path.stem: _read(path) for path in (folder / "steps").glob("*.json")}
        whole = [(name, record) for name, record in found.items() if record is not None]
        self.steps = dict(sorted(whole, key=lambda entry: entry[1].get("began", 0)))
        known = _read(folder / "about.json")
        if known is not None and known.get("device") != about["device"]:
            raise FolderError(
                f"{folder} has results of {known.get('device')}, and this is {about['device']}; "
                "name another folder with --out."
            )
        self.about = {**(known or {}), **about}
        self.write("about.json", json.dumps(self.about, indent=1))

    def keep(self, name: str, record: Mapping[str, Any]) -> None:
        """Keep what came of a step."""
        self.steps[name] = dict(record)
        self.write(f"steps/{name}.json", json.dumps(record, indent=1))

    def forget(self, name: str) -> None:
        """Forget a step, and how far it came; what it has measured stays in the database."""
        self.steps.pop(name, None)
        (self.folder / "steps" / f"{name}.json").unlink(missing_ok=True)
        (self.folder / "tests" / f"{name}.jsonl").unlink(missing_ok=True)

    def write(self, name: str, text: str) -> None:
        """Write a file, which is there whole or as it was before.

        Raises
        ------
        FolderError
            When there is no room.
        """
        path = self.folder / name
        draft = path.with_name(f".{path.name}.new")
        try:
            draft.write_text(text + "\n")
            os.replace(draft, path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise FolderError(
                f"{path} cannot be written: {error.strerror}; what was measured before is there. "
                "Make room, and run it again."
            ) from error


def _read(path: Path) -> dict[str, Any] | None:
    """What a file holds; nothing where there is none, or it was cut off."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
