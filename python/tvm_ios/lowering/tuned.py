# SPDX-License-Identifier: Apache-2.0
"""The user's database of tuned kernels."""

from __future__ import annotations

import sys
from typing import Any


def active_database() -> Any | None:
    """Return the MetaSchedule database whose ``with`` block is active; None for none."""
    loaded = sys.modules.get("tvm.s_tir.meta_schedule")  # slow to import, and needs packages
    return loaded.database.Database.current() if loaded is not None else None
