# SPDX-License-Identifier: Apache-2.0
"""What a rule raises where it has nothing to say."""


class NoRule(Exception):
    """A rule does not cover this operator; another may, or the generic lowering does."""
