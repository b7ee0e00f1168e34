# SPDX-License-Identifier: Apache-2.0
"""Rules that replace several operators by one larger operator, in one table (IOPS, section 2.3)."""

from ...shared.replacements.find import Replacements, find_replacements
from ...shared.replacements.rule import Alike, Reading, Rule
from .table import RULES

__all__ = ["RULES", "Alike", "Reading", "Replacements", "Rule", "find_replacements"]
