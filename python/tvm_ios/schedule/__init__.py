# SPDX-License-Identifier: Apache-2.0
"""Schedules: data that can be saved, loaded, checked and edited."""

from .schedule import Schedule, ScheduledOperator, ScheduledStage
from .speedup import Speedup

__all__ = ["Schedule", "ScheduledOperator", "ScheduledStage", "Speedup"]
