# SPDX-License-Identifier: Apache-2.0
"""A file of tests, and what came of each of them."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    """Print the outcomes as JSON."""
    (path,) = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.xml"
        command = [sys.executable, "-m", "pytest", path, f"--junitxml={report}"]
        done = subprocess.run(
            [*command, "-p", "no:cacheprovider"], cwd=_ROOT, stdout=sys.stderr, check=False
        )
        if not report.exists():
            print(json.dumps({"failure": f"pytest ended with status {done.returncode}"}))
            return
        tests = {_name(case): _outcome(case) for case in ElementTree.parse(report).iter("testcase")}
    result: dict[str, Any] = {"tests": tests}
    failed = [name for name, outcome in tests.items() if outcome.startswith("failed")]
    if failed or not tests:
        result["failure"] = f"{len(failed)} of {len(tests)} tests failed: {', '.join(failed)}"
    print(json.dumps(result))


def _name(case: ElementTree.Element) -> str:
    return str(case.get("name"))


def _outcome(case: ElementTree.Element) -> str:
    for kind, word in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
        found = case.find(kind)
        if found is not None:
            return f"{word}: {found.get('message')}"
    return "passed"


if __name__ == "__main__":
    main()
