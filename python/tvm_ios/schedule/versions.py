# SPDX-License-Identifier: Apache-2.0
"""Schedules, and options, as earlier releases named what is in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SCHEDULE = {"branches_cut": "cut_cost", "given_up": "partition_gap"}
_STAGE = {"division": "partitioning"}
_PARTITIONINGS = {"bands": "strips"}
_OPTIONS = {"caution": "lcb_factor", "site": "runner"}


def modernized(schedule: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON object of a schedule with the names of this release."""
    stages = [_modernized_stage(stage) for stage in schedule["stages"]]
    return {**_renamed(schedule, _SCHEDULE), "stages": stages}


def modernized_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of the search by the names of this release."""
    return _renamed(options, _OPTIONS)


def _modernized_stage(stage: Mapping[str, Any]) -> dict[str, Any]:
    renamed = _renamed(stage, _STAGE)
    partitioning = renamed.get("partitioning")
    if isinstance(partitioning, str):
        renamed["partitioning"] = _PARTITIONINGS.get(partitioning, partitioning)
    return renamed


def _renamed(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in values.items()}
