# SPDX-License-Identifier: Apache-2.0
"""What a test is, and what comes of it; neither needs TVM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

RIGHT, REFUSED, SAME, LEFT_OUT = "right", "refused", "same", "left out"
WRONG, ERROR, CRASH, HANG = "wrong", "error", "crash", "hang"
FINDINGS = (WRONG, ERROR, CRASH, HANG)
"""What must not come of any test."""


@dataclass(frozen=True)
class Test:
    """A test of a suite in one of its forms."""

    suite: str
    name: str
    form: str


@dataclass(frozen=True)
class Outcome:
    """What came of a test, and why.

    Attributes
    ----------
    status : str
        :data:`RIGHT`, :data:`REFUSED` (by one sentence), :data:`SAME` (the form is that of the test
        itself), :data:`LEFT_OUT` (no single answer is right), or one of :data:`FINDINGS`.
    reason : str
    samples : tuple of Outcome
        What came of each call, of a test that consists of several.
    """

    status: str
    reason: str = ""
    samples: tuple[Outcome, ...] = ()


def combined(samples: Sequence[Outcome]) -> Outcome:
    """Return what comes of a test of several calls: the first finding, else the first refusal."""
    kept = tuple(samples)
    worst = min(kept, key=lambda sample: _rank(sample.status), default=Outcome(LEFT_OUT))
    counted = sum(sample.status != LEFT_OUT for sample in kept)
    right = sum(sample.status == RIGHT for sample in kept)
    reason = worst.reason
    if worst.status in FINDINGS:
        reason = f"{reason.rstrip()} (sample {kept.index(worst)})"
    elif worst.status == REFUSED and right:
        reason = f"{reason} ({right} of {counted} samples right)"
    return replace(worst, reason=reason, samples=kept)


def _rank(status: str) -> int:
    return (*FINDINGS, REFUSED, RIGHT, LEFT_OUT).index(status)
