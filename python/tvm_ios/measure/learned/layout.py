# SPDX-License-Identifier: Apache-2.0
"""The layout of stored features: a number that changes when the code of the features does."""

from __future__ import annotations

import functools
from pathlib import Path

from ...database.code_digest import digest_of

SOURCES = ("features.py", "members.py", "operator_table.py")
_DIGITS = 8  # hexadecimal; a float64 has every such number


@functools.cache
def feature_layout() -> int:
    """Return the number that identifies the features that this code computes.

    It follows from the code, because an edited formula changes features without a new name.
    """
    here = Path(__file__).parent
    return int(digest_of([here / name for name in SOURCES], here)[:_DIGITS], 16)
