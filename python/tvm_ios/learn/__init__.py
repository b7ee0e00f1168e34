# SPDX-License-Identifier: Apache-2.0
"""What is learned from measured stages about those that are not."""

from .active import LearnedCost

__all__ = ["LearnedCost"]
