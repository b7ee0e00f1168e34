# SPDX-License-Identifier: Apache-2.0
"""The kernel builder of CUDA devices: kernels compiled on demand, to libraries."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Hashable, Iterable, Sequence

import tvm

from ....lowering.parallel import compiled
from ....measure.protocol import Library
from ....measure.transport.session import KernelFault
from ....support.errors import TvmIosError
from ....support.folders import TemporaryFolder
from ....support.progress import progress
from ....support.text import last_line
from ..code.build import build_kernels
from ..kernels.kernel import CudaKernel

_BATCH = 8  # kernels of a library: few, so that no core waits long for the last


class CudaKernelBuilder:
    """Compiled kernels, each compiled once.

    Parameters
    ----------
    target : tvm.target.Target
        The CUDA device and its host.
    """

    def __init__(self, target: tvm.target.Target) -> None:
        self._target = target
        self._folder, self._count = TemporaryFolder(), itertools.count()
        self._libraries: dict[Hashable, Library] = {}
        self._broken: dict[Hashable, str] = {}
        self._lock = threading.Lock()  # the thread of a session may request a missing kernel

    def compile(self, kernels: Iterable[CudaKernel]) -> None:
        """Compile the kernels that are not compiled yet."""
        with self._lock:
            new = {kernel.key: kernel for kernel in kernels if not self._known(kernel)}
            pending = list(new.values())
            if not pending:
                return
            count = -(-len(pending) // _BATCH)
            batches = [pending[i::count] for i in range(count)]  # spreads similar kernels
            settings = tvm.transform.PassContext.current()  # thread-local: threads have their own

            def build(batch: Sequence[CudaKernel]) -> list[Library]:
                with settings:
                    return self._sound(batch)

            with progress("compiling kernels", len(pending)) as advance:
                for libraries in compiled(build, batches, self._target.host):
                    for library in libraries:
                        self._libraries.update(dict.fromkeys(library.names, library))
                        advance(len(library.names))

    def library(self, kernel: CudaKernel) -> Library:
        """Return the library of a kernel, and compile it if necessary.

        Raises
        ------
        KernelFault
            If the kernel cannot be compiled.
        """
        if not self._known(kernel):
            self.compile([kernel])
        if kernel.key in self._broken:
            name = kernel.variant or kernel.name
            raise KernelFault(f"{name} cannot be compiled: {self._broken[kernel.key]}")
        return self._libraries[kernel.key]

    def _known(self, kernel: CudaKernel) -> bool:
        return kernel.key in self._libraries or kernel.key in self._broken

    def _sound(self, kernels: Sequence[CudaKernel]) -> list[Library]:
        """Return libraries of those kernels that can be compiled, and note the others."""
        try:
            return [self._compile(kernels)]
        except TvmIosError:  # the compiler, not a kernel
            raise
        except Exception as error:  # TVM and compilers raise several types
            if len(kernels) > 1:
                return [library for kernel in kernels for library in self._sound([kernel])]
            self._broken[kernels[0].key] = last_line(error)
            return []

    def _compile(self, kernels: Sequence[CudaKernel]) -> Library:
        named = {f"k{i}": kernel for i, kernel in enumerate(kernels)}
        path = self._folder.path / f"kernels{next(self._count)}.so"
        executable = build_kernels(named, self._target)
        with TemporaryFolder() as folder:
            executable.export_library(str(path), workspace_dir=str(folder))
        return Library(path, {kernel.key: [name] for name, kernel in named.items()})
