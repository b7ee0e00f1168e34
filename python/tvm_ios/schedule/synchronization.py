# SPDX-License-Identifier: Apache-2.0
"""How the workers of a CPU wait for each other while a network runs."""

from __future__ import annotations

from typing import Literal, get_args

Synchronization = Literal["barrier", "point-to-point"]
"""``barrier``: all workers meet between two operators that depend on each other.
``point-to-point``: a worker goes on as soon as others have computed what it reads."""

SYNCHRONIZATIONS: tuple[Synchronization, ...] = get_args(Synchronization)
