# SPDX-License-Identifier: Apache-2.0
"""Run ONNX's own tests of operators on what is compiled here.

    python -m conformance [PATTERN...] [--form NAME,...] [--part I/N]

Each test is right, or refused by a sentence. Ends with status 1 if one is wrong, or ends in an
internal error, a crash or a hang.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path

from . import onnx_suite
from .outcome import FINDINGS, REFUSED, RIGHT, Outcome, Test
from .run import run
from .table import written


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tests that are asked for; returns the exit status."""
    options = _parser().parse_args(argv)
    tests = _chosen(options)
    outcomes = run(tests, _counter(len(tests)))
    _report(outcomes)
    if options.json:
        listed = [[t.name, t.form, o.status, o.reason] for t, o in outcomes.items()]
        options.json.write_text(json.dumps(listed, indent=1))
    if options.write:
        options.write.write_text(written(outcomes, options.write.read_text()))
    return int(any(outcome.status in FINDINGS for outcome in outcomes.values()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m conformance", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help="parts of tests' names")
    parser.add_argument(
        "--form",
        type=_forms,
        default=list(onnx_suite.FORMS),
        metavar="NAME,...",
        help=f"some of {', '.join(onnx_suite.FORMS)} (default: all)",
    )
    parser.add_argument(
        "--part",
        type=_part,
        default=(1, 1),
        metavar="I/N",
        help="every N-th test, from the I-th on",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all outcomes")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table into a document")
    return parser


def _forms(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in onnx_suite.FORMS]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"there is no form {', '.join(unknown)}; there are: {', '.join(onnx_suite.FORMS)}"
        )
    return names


def _part(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is no part, such as 1/3")
    return int(number), int(count)


def _chosen(options: argparse.Namespace) -> list[Test]:
    number, count = options.part
    patterns = [f"*{pattern}*" for pattern in options.patterns] or ["*"]
    tests = [
        Test(name, form)
        for form in options.form
        for name in onnx_suite.cases()
        if any(fnmatch(name, pattern) for pattern in patterns)
    ]
    return tests[number - 1 :: count]


def _counter(count: int) -> Callable[[int], None]:
    def say(done: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{done} of {count}", end="", file=sys.stderr, flush=True)

    return say


def _report(outcomes: Mapping[Test, Outcome]) -> None:
    for test, outcome in sorted(outcomes.items(), key=lambda item: item[0].name):
        if outcome.status in FINDINGS:
            reason = outcome.reason.strip().splitlines()
            print(f"{outcome.status}: {test.name} ({test.form}): {reason[-1] if reason else ''}")
    for form in onnx_suite.FORMS:
        counts = Counter(o.status for t, o in outcomes.items() if t.form == form)
        if counts:
            print(f"{form}: " + ", ".join(f"{n} {status}" for status, n in counts.most_common()))
    right = {test.name for test, outcome in outcomes.items() if outcome.status == RIGHT}
    refused = {test.name for test, outcome in outcomes.items() if outcome.status == REFUSED}
    print(f"right in some form: {len(right)}; refused in all: {len(refused - right)}")


if __name__ == "__main__":
    sys.exit(main())
