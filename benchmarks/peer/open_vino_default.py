# SPDX-License-Identifier: Apache-2.0
"""OpenVINO in the precision that it chooses by itself."""

from __future__ import annotations

from peer.contender import Runner, Task
from peer.open_vino import request


def prepare(task: Task) -> Runner:
    """Make a request."""
    return request(task, {})
