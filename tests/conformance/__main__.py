# SPDX-License-Identifier: Apache-2.0
"""Run ONNX's and PyTorch's own tests of operators on what is compiled here.

    python -m conformance [PATTERN...] [--suite NAME] [--form NAME,...] [--part I/N]

Each test is right, or refused by a sentence. Ends with status 1 if one is wrong, or ends in an
internal error, a crash or a hang.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from fnmatch import fnmatch

from . import suites
from .options import parser
from .outcome import FINDINGS, Outcome, Test
from .report import listed, printed
from .run import processes, run


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tests that are asked for; returns the exit status."""
    options = parser(__doc__).parse_args(argv)
    outcomes: dict[Test, Outcome] = {}
    chosen = [suite for suite in suites.FORMS if suite != suites.PEERS or options.write]
    for suite in [options.suite] if options.suite else chosen:
        outcomes |= _run(suite, options)
    if options.json:
        options.json.write_text(json.dumps(listed(outcomes), indent=1))
    if options.write:
        from .table import written

        options.write.write_text(written(outcomes, options.write.read_text()))
    ours = (outcome for test, outcome in outcomes.items() if test.suite != suites.PEERS)
    return int(any(outcome.status in FINDINGS for outcome in ours))


def _run(suite: str, options: argparse.Namespace) -> dict[Test, Outcome]:
    """Run the tests of a suite; none if a package is missing that nobody asked for."""
    try:
        tests = _chosen(suite, options)
    except ImportError as error:
        if options.suite:
            raise
        print(f"{suite}: left out, as {error.name} is not installed")
        return {}
    if not tests:
        return {}
    begin = time.monotonic()
    outcomes = run(tests, _counter(len(tests)))
    seconds = time.monotonic() - begin
    print(printed(outcomes))
    print(
        f"{suite}: {len(tests)} tests took {seconds:.0f} s in {processes()} processes", flush=True
    )
    return outcomes


def _chosen(suite: str, options: argparse.Namespace) -> list[Test]:
    number, count = options.part
    patterns = [f"*{pattern}*" for pattern in options.patterns] or ["*"]
    tests = [
        Test(suite, name, form)
        for form in suites.FORMS[suite]
        if form in options.form
        for name in suites.find(suite).names(form)
        if any(fnmatch(name, pattern) for pattern in patterns)
    ]
    return tests[number - 1 :: count]


def _counter(count: int) -> Callable[[int], None]:
    def say(done: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{done} of {count}", end="", file=sys.stderr, flush=True)

    return say


if __name__ == "__main__":
    sys.exit(main())
