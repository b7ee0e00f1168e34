# SPDX-License-Identifier: Apache-2.0
"""Timing of whole models on a CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import tvm
from tvm import relax

from tvm_ios_runtime.helpers import use_helpers

from ....lowering.export import export
from ....measure.timing.models import Timers, window_timers
from ....support.folders import TemporaryFolder
from ....support.threads import with_num_threads

T = TypeVar("T")


@dataclass(frozen=True)
class CompiledVariants:
    """One function, compiled in several variants."""

    _vm: relax.VirtualMachine
    _names: Sequence[str]
    _arguments: Sequence[tvm.runtime.Tensor | tuple[Any, ...]]
    _workers: int

    @classmethod
    def compile(
        cls,
        mod: tvm.IRModule,
        names: Sequence[str],
        inputs: Sequence[tvm.runtime.Tensor | tuple[Any, ...]],
        target: tvm.target.Target,
        workers: int,
    ) -> CompiledVariants:
        """Compile the variants for this process.

        The module, the names of its functions and their inputs are what
        :meth:`tvm_ios.backend.base.Backend.compile` is given.

        Parameters
        ----------
        target : tvm.target.Target
            The target of the code.
        workers : int
            Number of threads.
        """
        executable = tvm.compile(mod, target, relax_pipeline=relax.get_default_pipeline(target))
        with TemporaryFolder() as folder:  # what is loaded stays until it is no longer used
            export(executable, folder / "variants.so")
            library = tvm.runtime.load_module(str(folder / "variants.so"))
        use_helpers(library)  # as tvm_ios_runtime does
        return cls(relax.VirtualMachine(library, tvm.cpu()), names, inputs, workers)

    def time(self, work: Callable[[Timers], T]) -> T:
        """Call ``work`` with the timers of the variants, on a thread that has the workers."""
        return with_num_threads(
            self._workers, lambda: work(window_timers(self._names, self._timer))
        )

    def __call__(self, name: str, arguments: Sequence[tvm.runtime.Tensor | tuple[Any, ...]]) -> Any:
        """Run one variant and return its results."""
        return with_num_threads(self._workers, lambda: self._vm[name](*arguments))

    def shared_rounds(self) -> None:
        """Return None: only these variants are timed."""

    def _timer(self, name: str, number: int) -> Callable[[], float]:
        timer = self._vm.time_evaluator(name, tvm.cpu(), number=number, repeat=1)
        return lambda: timer(*self._arguments).results[0]
