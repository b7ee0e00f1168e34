# SPDX-License-Identifier: Apache-2.0
"""The rules of all operators. An operator without one may combine anything."""

from __future__ import annotations

from ..meaning import MeaningRule, ValueRule
from . import elementwise, guards, moves, parts, products, reductions, windows

MEANINGS: dict[str, MeaningRule] = {
    **elementwise.RULES,
    **parts.RULES,
    **products.RULES,
    **reductions.RULES,
    **windows.RULES,
}
"""By the names of operators, without ``relax.``."""

VALUES: dict[str, ValueRule] = {**moves.RULES, "where": guards.where}
