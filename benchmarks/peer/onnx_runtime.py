# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime as a user sets it up for one inference at a time."""

from __future__ import annotations

import onnxruntime

from peer.contender import Runner, Task


def prepare(task: Task) -> Runner:
    """A session with all optimisations; its threads spin only for a while after a run."""
    return session_runner(task, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)


def session_runner(
    task: Task, level: onnxruntime.GraphOptimizationLevel, *, parallel: bool = False
) -> Runner:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    modes = onnxruntime.ExecutionMode
    options.execution_mode = modes.ORT_PARALLEL if parallel else modes.ORT_SEQUENTIAL
    options.intra_op_num_threads = task.threads
    options.inter_op_num_threads = task.threads if parallel else 1
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(task.model, options, providers=providers)
    return Runner(lambda: session.run(None, task.inputs), list)
