# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime with its executor that runs operators at the same time."""

from __future__ import annotations

import onnxruntime

from peer.contender import Runner, Task
from peer.onnx_runtime import session_runner


def prepare(task: Task) -> Runner:
    """A session with all optimisations, and as many operators at a time as threads."""
    level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    return session_runner(task, level, parallel=True)
