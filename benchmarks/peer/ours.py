# SPDX-License-Identifier: Apache-2.0
"""A library that ``tvm-ios compile`` wrote, run as it is deployed: by TVM's runtime alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm.runtime.vm import VirtualMachine

from peer.contender import Runner, Task


def prepare(task: Task) -> Runner:
    """Load the library, which asks TVM's pool for the threads that it was compiled for."""
    vm = VirtualMachine(tvm.runtime.load_module(task.model), tvm.cpu())
    main, inputs = vm["main"], [tvm.runtime.tensor(array) for array in task.inputs.values()]
    return Runner(lambda: main(*inputs), _leaves)


def _leaves(result: Any) -> list[np.ndarray]:
    if isinstance(result, tvm.runtime.Tensor):
        return [result.numpy()]
    return [array for item in result for array in _leaves(item)]
