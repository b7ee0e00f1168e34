# SPDX-License-Identifier: Apache-2.0
"""How the workers of a CPU, or the kernels of a GPU, wait for each other while a network runs."""

from __future__ import annotations

from typing import Literal, get_args

Synchronization = Literal["barrier", "point-to-point"]
"""``barrier``: all workers meet between two operators that depend on each other.
``point-to-point``: a worker goes on as soon as others have computed what it reads. On a GPU a
``barrier`` is the end of a stage, and a kernel waits for those that compute what it reads."""

SYNCHRONIZATIONS: tuple[Synchronization, ...] = get_args(Synchronization)
