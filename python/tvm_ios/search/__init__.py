# SPDX-License-Identifier: Apache-2.0
"""The search for a cheapest schedule: the dynamic programme, the baselines, equal blocks."""

from ..graph.dag import Candidate, Dag, components
from ..schedule.partitioning import STRATEGIES
from .core import (
    CostFunction,
    ScheduleSpace,
    SearchResult,
    Stage,
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
    "Stage",
    "components",
    "endings",
    "find_schedule",
    "greedy",
    "partition",
    "partition_cost",
    "sequential",
]
