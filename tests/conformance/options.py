# SPDX-License-Identifier: Apache-2.0
"""The arguments of the command."""

from __future__ import annotations

import argparse
from pathlib import Path

from .suites import FORMS

_ALL_FORMS = [form for forms in FORMS.values() for form in forms]


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    made = argparse.ArgumentParser(prog="python -m conformance", description=description)
    made.formatter_class = argparse.RawDescriptionHelpFormatter
    made.add_argument("patterns", nargs="*", metavar="PATTERN", help="parts of tests' names")
    made.add_argument("--suite", choices=list(FORMS), help="default: all")
    made.add_argument(
        "--form",
        type=_forms,
        default=_ALL_FORMS,
        metavar="NAME,...",
        help=f"some of {', '.join(_ALL_FORMS)} (default: all)",
    )
    made.add_argument(
        "--part",
        type=_part,
        default=(1, 1),
        metavar="I/N",
        help="every N-th test, from the I-th on",
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write all outcomes")
    made.add_argument("--write", type=Path, metavar="FILE", help="put the tables into a document")
    return made


def _forms(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in _ALL_FORMS]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"there is no form {', '.join(unknown)}; there are: {', '.join(_ALL_FORMS)}"
        )
    return names


def _part(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is no part, such as 1/3")
    return int(number), int(count)
