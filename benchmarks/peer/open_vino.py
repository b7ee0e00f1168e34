# SPDX-License-Identifier: Apache-2.0
"""OpenVINO as a user sets it up for one inference at a time."""

from __future__ import annotations

import numpy as np
import openvino

from peer.contender import Runner, Task


def prepare(task: Task) -> Runner:
    """Make a request that computes in float32."""
    return request(task, {"INFERENCE_PRECISION_HINT": "f32"})  # not bf16, where the CPU has it


def request(task: Task, precision: dict[str, str]) -> Runner:
    """Make a request whose inputs are set once, as those of the others."""
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "INFERENCE_NUM_THREADS": task.threads,
        **precision,
    }
    compiled = openvino.Core().compile_model(task.model, "CPU", settings)
    request = compiled.create_infer_request()
    for name, array in task.inputs.items():
        request.set_tensor(name, openvino.Tensor(array))

    def arrays(_result: object) -> list[np.ndarray]:
        return [np.array(request.get_tensor(output).data) for output in compiled.outputs]

    used = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
    return Runner(request.infer, arrays, precision=used)
