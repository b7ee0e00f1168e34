# SPDX-License-Identifier: Apache-2.0
"""What the package raises when its user is wrong; each message says what to do."""

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
