# SPDX-License-Identifier: Apache-2.0
"""torch.compile on an exported program."""

from __future__ import annotations

import os
from pathlib import Path

import torch
import torch._inductor.config

from peer.contender import Runner, Task

_CACHE = "TORCHINDUCTOR_CACHE_DIR"


def prepare(task: Task) -> Runner:
    """The program's module, compiled by its first run; with frozen weights as in torch_compile.

    What it keeps of compiled code lies beside the program.
    """
    os.environ[_CACHE] = str(Path(task.model).with_suffix(".inductor"))
    torch.set_num_threads(task.threads)
    torch.set_num_interop_threads(1)
    torch._inductor.config.freezing = True
    compiled = torch.compile(torch.export.load(task.model).module())
    inputs = [torch.from_numpy(array) for array in task.inputs.values()]

    def run() -> tuple[torch.Tensor, ...]:
        with torch.no_grad():
            result = compiled(*inputs)
        return result if isinstance(result, tuple) else (result,)

    run()
    return Runner(run, lambda result: [tensor.numpy() for tensor in result])
