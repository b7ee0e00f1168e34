# SPDX-License-Identifier: Apache-2.0
"""What a test is, and what comes of it; neither needs TVM."""

from __future__ import annotations

from dataclasses import dataclass

RIGHT, REFUSED, SAME = "right", "refused", "same"
WRONG, ERROR, CRASH, HANG = "wrong", "error", "crash", "hang"
FINDINGS = (WRONG, ERROR, CRASH, HANG)
"""What must not come of any test."""


@dataclass(frozen=True)
class Test:
    """A test of a suite in one of its forms."""

    name: str
    form: str


@dataclass(frozen=True)
class Outcome:
    """What came of a test, and why.

    Attributes
    ----------
    status : str
        :data:`RIGHT`, :data:`REFUSED` (by one sentence), :data:`SAME` (the form is that of the test
        itself), or one of :data:`FINDINGS`.
    reason : str
    """

    status: str
    reason: str = ""
