# SPDX-License-Identifier: Apache-2.0
"""Kernels of a CUDA device, compiled as they are needed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import tvm

from ...kernels.cuda.kernel import CudaKernel
from ...lower.cuda.build import build_kernels
from ..progress import progress

_BATCH = 32  # kernels of a module: the headers take the compiler longer than a small kernel does


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
        with progress("compiling kernels", len(pending)) as advance:
            for begin in range(0, len(pending), _BATCH):
                batch = pending[begin : begin + _BATCH]
                named = {f"k{begin + i}": kernel for i, kernel in enumerate(batch)}
                module = build_kernels(named, self._target)
                self._functions.update((k.key, module[name]) for name, k in named.items())
                advance(len(batch))

    def function(self, kernel: CudaKernel) -> Callable[..., Any]:
        """The kernel as a function of its tensors; it is compiled if need be."""
        if kernel.key not in self._functions:
            self.compile([kernel])
        return self._functions[kernel.key]
