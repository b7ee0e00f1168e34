# SPDX-License-Identifier: Apache-2.0
"""The table of ONNX's operators in the documents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import onnx.defs

from . import onnx_suite
from .outcome import REFUSED, RIGHT, Outcome, Test
from .suites import ONNX

BEGIN, END = "<!-- operators: begin -->", "<!-- operators: end -->"
_MOST = 100  # characters of a reason


def written(outcomes: Mapping[Test, Outcome], page: str) -> str:
    """Return a page with the table of these outcomes between its marks."""
    head, rest = page.split(BEGIN)
    _, tail = rest.split(END)
    return f"{head}{BEGIN}\n{table(outcomes)}\n{END}{tail}"


def table(outcomes: Mapping[Test, Outcome]) -> str:
    """Return a row for each operator: its versions, what is right, what is refused, and why."""
    rows: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    reasons: dict[str, set[str]] = defaultdict(set)
    for test, outcome in outcomes.items():
        if test.suite != ONNX:
            continue
        operator = onnx_suite.operator_of(test.name)
        rows[operator][outcome.status].add(test.name)
        if outcome.status == REFUSED and test.form == onnx_suite.CONSTANTS:
            reasons[operator].add(_shortened(outcome.reason))
    lines = ["| operator | versions | tests right | refused | why, with constant inputs |",
             "| --- | --- | ---: | ---: | --- |"]  # fmt: skip
    for operator, found in sorted(rows.items()):
        right = found[RIGHT]
        refused = found[REFUSED] - right
        why = "; ".join(sorted(reasons[operator])) if refused else ""
        lines.append(
            f"| {operator} | {_versions(operator)} | {len(right)} | {len(refused)} | {why} |"
        )
    return "\n".join(lines)


def _versions(operator: str) -> str:
    found = sorted({
        schema.since_version
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.name == operator and schema.domain == ""
    })  # fmt: skip
    return ", ".join(map(str, found))


def _shortened(reason: str) -> str:
    """Return the first half of a sentence, without the file's name."""
    text = reason.split("; export")[0].rstrip(".")
    if ".onnx has " in text:
        text = text.split(".onnx has ")[1]
    return text[:_MOST].replace("|", "/")
