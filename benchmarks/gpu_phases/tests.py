# SPDX-License-Identifier: Apache-2.0
"""A file of tests, and what came of each of them.

Outcomes are said, and added to a file, as they come. Tests that the file has are not run again, so
that a step that was cut goes on where it was.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from gpu_phases.messages import Channel

_MESSAGE = 300  # characters
_NAMED = 5  # failures


class Recorder:
    """A plugin of pytest that writes a line of JSON for each test.

    Parameters
    ----------
    path : Path
        Added to.
    channel : Channel
    """

    def __init__(self, path: Path, channel: Channel) -> None:
        self._path, self._channel = path, channel
        lines = path.read_text().splitlines() if path.exists() else []
        self.outcomes: dict[str, str] = dict(filter(None, map(_parsed, lines)))

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.name not in self.outcomes]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.outcome == "passed":
            return  # its fixtures were made, or taken down
        name = report.nodeid.rpartition("::")[2]
        self._record(name, report.outcome + _message(report))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.outcome != "passed":
            self._record(report.nodeid, report.outcome + _message(report))

    def _record(self, name: str, outcome: str) -> None:
        self.outcomes[name] = outcome
        with open(self._path, "a") as file:
            print(json.dumps([name, outcome]), file=file)
        self._channel.say({"tests": {name: outcome}})


def main() -> None:
    """Say all outcomes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", help="of the tests")
    parser.add_argument("--outcomes", type=Path, required=True, help="what is added to")
    args = parser.parse_args()
    channel = Channel()
    recorder = Recorder(args.outcomes, channel)
    pytest.main([args.path, "-p", "no:cacheprovider"], plugins=[recorder])
    failed = [name for name, outcome in recorder.outcomes.items() if outcome.startswith("failed")]
    result: dict[str, Any] = {"tests": recorder.outcomes}
    if failed or not recorder.outcomes:
        named = ", ".join(failed[:_NAMED]) + (", ..." if len(failed) > _NAMED else "")
        result["failure"] = f"{len(failed)} of {len(recorder.outcomes)} tests failed: {named}"
    channel.say(result)


def _parsed(line: str) -> tuple[str, str] | None:
    """What a line says; nothing of one that was cut off."""
    try:
        name, outcome = json.loads(line)
    except ValueError:
        return None
    return name, outcome


def _message(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why a test did not pass."""
    if report.outcome == "passed" or report.longrepr is None:
        return ""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        text = crash.message
    elif isinstance(report.longrepr, tuple):  # of one that was skipped: where, and why
        text = report.longrepr[2]
    else:
        text = str(report.longrepr)
    return f": {' '.join(text.split())[:_MESSAGE]}"


if __name__ == "__main__":
    main()
