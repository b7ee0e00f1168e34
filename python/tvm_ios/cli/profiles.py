# SPDX-License-Identifier: Apache-2.0
"""The profile of a run, as ``tvm-ios show`` prints it."""

from __future__ import annotations

import math
from typing import Any

from ..measure.profile import NetworkProfile

COLUMNS = ("work", "waiting", "slow-down", "MB moved")


def as_json(profile: NetworkProfile) -> dict[str, Any]:
    """Return the profile as keys beside those of the schedule."""
    return {
        "busy_over_alone": _number(profile.busy_over_alone),
        "waiting_share": _number(profile.waiting_share),
        "profile": [
            {
                "stage": number,
                "ms": _number(1e3 * stage.seconds),
                "busy_ms": _number(1e3 * stage.busy),
                "waiting_ms": _number(1e3 * stage.waiting),
                "alone_ms": _number(1e3 * stage.alone),
                "moved_bytes": stage.moved_bytes,
            }
            for number, stage in profile.stages.items()
        ],
    }


def summary(profile: NetworkProfile) -> str:
    """Return a line on the whole network."""
    return (
        f"profile:   {1e3 * profile.seconds:.3f} ms; kernels take {profile.busy_over_alone:.2f}x "
        f"their time alone; workers wait {profile.waiting_share:.1%} of the time"
    )


def cells(profile: NetworkProfile, stage: int) -> tuple[str, ...]:
    """Return the cells of :data:`COLUMNS` for a stage; dashes if it has no kernels."""
    found = profile.stages.get(stage)
    if found is None:
        return ("-",) * len(COLUMNS)
    total = found.busy + found.waiting
    slower = found.busy_over_alone
    return (
        f"{found.busy / total:.1%}",
        f"{found.waiting / total:.1%}",
        "-" if math.isnan(slower) else f"{slower:.2f}x",
        f"{found.moved_bytes / 1e6:.2f}",
    )


def _number(value: float) -> float | None:
    """Return a number for JSON, which has none that is not finite."""
    return round(value, 6) if math.isfinite(value) else None
