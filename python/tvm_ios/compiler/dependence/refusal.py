# SPDX-License-Identifier: Apache-2.0
"""The exception that a rule raises."""

from __future__ import annotations


class RefusalError(Exception):
    """What an operator computes may depend on rows or positions that it must not depend on.

    The message, a part of a sentence, says which operator that is, and why.
    """
