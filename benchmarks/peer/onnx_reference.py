# SPDX-License-Identifier: Apache-2.0
"""What the outputs should be: ONNX Runtime, operator by operator as the file says."""

from __future__ import annotations

import onnxruntime

from peer.contender import Runner, Task
from peer.onnx_runtime import session_runner


def prepare(task: Task) -> Runner:
    return session_runner(task, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
