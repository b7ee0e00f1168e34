# SPDX-License-Identifier: Apache-2.0
"""The search for the cheapest schedule: dynamic programming, baselines, reuse of equal blocks."""

from ..graph.dag import Candidate, Dag, components
from ..schedule.partitioning import STRATEGIES
from .best_first_search import best_first
from .core import (
    CostFunction,
    ScheduleSpace,
    SearchResult,
    endings,
    find_schedule,
    greedy,
    partition,
    partition_cost,
    sequential,
)

__all__ = [
    "STRATEGIES",
    "Candidate",
    "CostFunction",
    "Dag",
    "ScheduleSpace",
    "SearchResult",
    "best_first",
    "components",
    "endings",
    "find_schedule",
    "greedy",
    "partition",
    "partition_cost",
    "sequential",
]
