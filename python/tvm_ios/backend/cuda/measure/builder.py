# SPDX-License-Identifier: Apache-2.0
"""The kernel builder of CUDA devices: kernels compiled on demand."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import tvm

from ....measure.parallel import compiled
from ....support.progress import progress
from ..code.build import build_kernels
from ..kernels.kernel import CudaKernel

_BATCH = 8  # kernels of a module: few, so that no core waits long for the last


class CudaKernelBuilder:
    """Compiled kernels, each compiled once.

    Parameters
    ----------
    target : tvm.target.Target
        The CUDA device and its host.
    """

    def __init__(self, target: tvm.target.Target) -> None:
        self._target = target
        self._functions: dict[Hashable, Callable[..., Any]] = {}

    def compile(self, kernels: Iterable[CudaKernel]) -> None:
        """Compile the kernels that are not compiled yet."""
        new = {kernel.key: kernel for kernel in kernels if kernel.key not in self._functions}
        pending = list(new.values())
        if not pending:
            return
        count = -(-len(pending) // _BATCH)
        batches = [pending[i::count] for i in range(count)]  # spreads similar kernels
        settings = tvm.transform.PassContext.current()  # thread-local: other threads have their own

        def build(batch: Sequence[CudaKernel]) -> dict[Hashable, Callable[..., Any]]:
            named = {f"k{i}": kernel for i, kernel in enumerate(batch)}
            with settings:
                module = build_kernels(named, self._target)
            return {kernel.key: module[name] for name, kernel in named.items()}

        with progress("compiling kernels", len(pending)) as advance:
            for functions in compiled(build, batches, self._target.host):
                self._functions.update(functions)
                advance(len(functions))

    def function(self, kernel: CudaKernel) -> Callable[..., Any]:
        """Return the kernel as a function of its tensors, and compile it if necessary."""
        if kernel.key not in self._functions:
            self.compile([kernel])
        return self._functions[kernel.key]
