# SPDX-License-Identifier: Apache-2.0
"""torch.compile with its default back end, inductor."""

from __future__ import annotations

import onnx
import torch
import torch._inductor.config

from peer.contender import Runner, Task
from tvm_ios.baselines.onnx_torch import to_module


def prepare(task: Task) -> Runner:
    """The ONNX graph as a module of PyTorch's operators, compiled by its first run.

    With frozen weights inductor packs them for oneDNN and fuses more, as PyTorch advises for
    inference on CPUs.
    """
    torch.set_num_threads(task.threads)
    torch.set_num_interop_threads(1)
    torch._inductor.config.freezing = True
    compiled = torch.compile(to_module(onnx.load(task.model)))
    inputs = [torch.from_numpy(array) for array in task.inputs.values()]

    def run() -> tuple[torch.Tensor, ...]:
        with torch.no_grad():
            return compiled(*inputs)

    run()
    return Runner(run, lambda result: [tensor.numpy() for tensor in result])
