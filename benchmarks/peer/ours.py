# SPDX-License-Identifier: Apache-2.0
"""A library that ``tvm-ios compile`` wrote, run as it is deployed: by TVM's runtime alone."""

from __future__ import annotations

import tvm_ios_runtime
from peer.contender import Runner, Task


def prepare(task: Task) -> Runner:
    """Load the library, which asks TVM's pool for the threads that it was compiled for."""
    model, inputs = tvm_ios_runtime.load(task.model), []
    for array in task.inputs.values():
        inputs.append(tvm_ios_runtime.empty(array.shape, array.dtype))
        inputs[-1][...] = array
    return Runner(lambda: model(*inputs), list)
