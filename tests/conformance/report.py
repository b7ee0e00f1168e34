# SPDX-License-Identifier: Apache-2.0
"""What a run prints and writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from .outcome import FINDINGS, REFUSED, RIGHT, Outcome, Test


def printed(outcomes: Mapping[Test, Outcome]) -> str:
    """Return the findings of a suite, and how many tests ended in which way."""
    forms = dict.fromkeys(test.form for test in outcomes)
    lines = [*_findings(outcomes), *(_counts(form, outcomes) for form in forms)]
    right = {test.name for test, outcome in outcomes.items() if outcome.status == RIGHT}
    refused = {test.name for test, outcome in outcomes.items() if outcome.status == REFUSED}
    lines.append(f"right in some form: {len(right)}; refused in all: {len(refused - right)}")
    return "\n".join(lines)


def listed(outcomes: Mapping[Test, Outcome]) -> list[dict[str, Any]]:
    """Return all outcomes as JSON has them."""
    return [
        {
            **vars(test),
            "status": outcome.status,
            "reason": outcome.reason,
            "samples": [[sample.status, sample.reason] for sample in outcome.samples],
        }
        for test, outcome in outcomes.items()
    ]


def _findings(outcomes: Mapping[Test, Outcome]) -> Iterable[str]:
    for test, outcome in sorted(outcomes.items(), key=lambda item: item[0].name):
        if outcome.status in FINDINGS:
            reason = outcome.reason.strip().splitlines()
            yield f"{outcome.status}: {test.name} ({test.form}): {reason[-1] if reason else ''}"


def _counts(form: str, outcomes: Mapping[Test, Outcome]) -> str:
    its = [outcome for test, outcome in outcomes.items() if test.form == form]
    samples = [sample.status for outcome in its for sample in outcome.samples]
    tests = _counted(outcome.status for outcome in its)
    return f"{form}: {tests}" + (f"; samples: {_counted(samples)}" if samples else "")


def _counted(statuses: Iterable[str]) -> str:
    return ", ".join(f"{count} {status}" for status, count in Counter(statuses).most_common())
