# SPDX-License-Identifier: Apache-2.0
"""Schedules: data that can be saved, loaded, checked and edited."""

from .schedule import Schedule, ScheduledOperator, ScheduledStage

__all__ = ["Schedule", "ScheduledOperator", "ScheduledStage"]
