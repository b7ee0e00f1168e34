# SPDX-License-Identifier: Apache-2.0
"""The exceptions that the package raises on wrong input; each message says how to correct it."""

from .support.errors import (
    CostError,
    DatabaseError,
    DeviceError,
    ExpansionError,
    GraphError,
    ModelError,
    OptionError,
    RelayError,
    ScheduleError,
    TargetError,
    TvmIosError,
    UnsupportedError,
)

__all__ = [
    "CostError",
    "DatabaseError",
    "DeviceError",
    "ExpansionError",
    "GraphError",
    "ModelError",
    "OptionError",
    "RelayError",
    "ScheduleError",
    "TargetError",
    "TvmIosError",
    "UnsupportedError",
]
