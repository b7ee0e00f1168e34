# SPDX-License-Identifier: Apache-2.0
"""Kernels of a CUDA device, compiled as they are needed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import tvm

from ....measure.parallel import compiled
from ....support.progress import progress
from ..code.build import build_kernels
from ..kernels.kernel import CudaKernel

_BATCH = 8  # kernels of a module: few enough that no core waits long for the last


class CudaLibraries:
    """Compiled kernels, each once.

    Parameters
    ----------
    target : tvm.target.Target
    """

    def __init__(self, target: tvm.target.Target) -> None:
        self._target = target
        self._functions: dict[Hashable, Callable[..., Any]] = {}

    def compile(self, kernels: Iterable[CudaKernel]) -> None:
        """Compile the kernels that are new."""
        new = {kernel.key: kernel for kernel in kernels if kernel.key not in self._functions}
        pending = list(new.values())
        if not pending:
            return
        count = -(-len(pending) // _BATCH)
        batches = [pending[i::count] for i in range(count)]  # alike kernels are in different ones
        settings = tvm.transform.PassContext.current()  # other threads have their own

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
        """The kernel as a function of its tensors; it is compiled if need be."""
        if kernel.key not in self._functions:
            self.compile([kernel])
        return self._functions[kernel.key]
