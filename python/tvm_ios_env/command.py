# SPDX-License-Identifier: Apache-2.0
"""The command ``tvm-ios``, before anything is imported that may be missing or wrong."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from . import interrupted, report, requirements

_USER_ERROR = 4


def main() -> int:
    """Run the command line, or say in one sentence what keeps it from running."""
    found = requirements.problems()
    if not found:
        try:
            with _telling("loading TVM"):
                from tvm_ios.cli.main import main as run
        except ImportError as error:
            found = [str(error)]
        except KeyboardInterrupt:
            return interrupted.report()
        else:
            return run()
    if sys.argv[1:2] == ["env"]:
        facts = report.collect(found)
        print(json.dumps(facts, indent=1) if "--json" in sys.argv else report.as_text(facts))
        return 0
    print(f"error: {found[0]}", file=sys.stderr)
    return _USER_ERROR


@contextmanager
def _telling(what: str) -> Iterator[None]:
    """Show on a terminal what is done meanwhile."""
    if not sys.stderr.isatty():
        yield
        return
    print(what, end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print("\r" + " " * len(what), end="\r", file=sys.stderr, flush=True)
