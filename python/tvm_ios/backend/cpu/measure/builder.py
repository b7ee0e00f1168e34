# SPDX-License-Identifier: Apache-2.0
"""The kernel builder: kernels compiled on this machine, each once, for all runners.

The object code is what a compiled network is linked from.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Hashable, Iterable, Sequence

import tvm

from tvm_ios_env.machine import default_threads

from ....lowering.parallel import compiled
from ....measure.protocol import Library
from ....support.folders import TemporaryFolder
from ....support.progress import progress
from ..code.functions import link_kernels
from ..kernels.kernel import Kernel

_BATCHES = 4  # of a core, so that none waits long for the last
_LARGEST = 16  # kernels of a library


class CpuKernelBuilder:
    """The compiled kernels of one network.

    Parameters
    ----------
    target : tvm.target.Target
        The target of the kernels.
    network : iterable of Kernel
        Kernels that every runner needs; they are compiled in the first call of ``compile``.
    compiler : str, optional
        The linker, for an architecture other than this machine's.
    """

    def __init__(
        self,
        target: tvm.target.Target,
        network: Iterable[Kernel] = (),
        *,
        compiler: str | None = None,
    ) -> None:
        self._target, self._network = target, list(network)
        self._folder, self._count = TemporaryFolder(), itertools.count()
        self._compiler = compiler
        self._builder: dict[Hashable, Library] = {}
        self._lock = threading.Lock()  # several runners may request a missing kernel

    def compile(self, kernels: Iterable[Kernel]) -> None:
        """Compile the kernels that are not compiled yet."""
        with self._lock:
            wanted = [*kernels, *self._network]
            new = {k.key: k for k in wanted if k.phases and k.key not in self._builder}
            pending = list(new.values())
            if not pending:
                return
            size = min(_LARGEST, -(-len(pending) // (_BATCHES * default_threads())))
            batches = [pending[i : i + size] for i in range(0, len(pending), size)]
            with progress("compiling kernels", len(pending)) as advance:
                for library in compiled(self._compile, batches, self._target):
                    self._builder.update(dict.fromkeys(library.names, library))
                    advance(len(library.names))

    def library(self, kernel: Kernel) -> Library:
        """Return the library of a kernel, and compile it if necessary."""
        if kernel.key not in self._builder:
            self.compile([kernel])
        return self._builder[kernel.key]

    def _compile(self, kernels: Sequence[Kernel]) -> Library:
        names = {k.key: [f"k{i}_{p}" for p in range(len(k.phases))] for i, k in enumerate(kernels)}
        path = self._folder.path / f"kernels{next(self._count)}.so"
        functions = {
            name: (kernel, phase)
            for kernel in kernels
            for phase, name in enumerate(names[kernel.key])
        }
        link_kernels(functions, self._target, path, self._compiler)
        return Library(path, names)
