# SPDX-License-Identifier: Apache-2.0
"""The pruning limits of the search."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PruningLimits:
    """The limits of the stages that the search considers (IOS, section 4).

    They do not apply to merged stages.

    Attributes
    ----------
    max_group_size : int or None
        The limit r: the maximum number of operators in a group. None: no limit.
    max_num_groups : int or None
        The limit s: the maximum number of groups in a stage. None: no limit.
    """

    max_group_size: int | None = 3
    max_num_groups: int | None = 8


ONE_BY_ONE = PruningLimits(1, 1)
"""The limits of stages of a single operator."""
