# SPDX-License-Identifier: Apache-2.0
"""Timing of whole models on a CUDA device, in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import tvm

from ....lowering.export import export
from ....measure.timing.models import Timers
from ....measure.transport.pool import AnyRunnerPool
from ....measure.transport.remote_model import RemoteVariants, Timer, Variant
from ....measure.transport.session import RemoteSession
from ....support.folders import TemporaryFolder
from .clock import warm_clock
from .model import SEQUENTIAL, UNGRAPHED, CudaVariants, build_model
from .session_handles import raise_lost

T = TypeVar("T")


@dataclass(frozen=True)
class IsolatedVariants:
    """One function, compiled in several variants, each captured as one CUDA graph.

    They are timed where stages are measured. Beside other implementations, which run in this
    process, they are timed in this process, too.
    """

    _remote: RemoteVariants
    _in_this_process: Callable[[], CudaVariants]

    @classmethod
    def compile(
        cls,
        mod: tvm.IRModule,
        names: Sequence[str],
        inputs: Sequence[tvm.runtime.Tensor],
        target: tvm.target.Target,
        device_id: int,
        pool: AnyRunnerPool,
    ) -> IsolatedVariants:
        """Compile the variants; ``sequential`` is also timed without a graph.

        The parameters are those of :meth:`.CudaVariants.compile`.

        Parameters
        ----------
        pool : RunnerPool
            Where stages are measured.
        """
        folder = TemporaryFolder()
        graphs, launches = folder.path / "graphs.so", folder.path / "launches.so"
        export(build_model(mod, target, graph=True), graphs)
        variants = {name: Variant(graphs, name) for name in names}
        if SEQUENTIAL in names:
            export(build_model(mod, target, graph=False), launches)
            variants[UNGRAPHED] = Variant(launches, SEQUENTIAL)
        clock = warm_clock(device_id)

        def devices(session: RemoteSession) -> list[tvm.runtime.Device]:
            return [session.connection.cuda(device_id), session.connection.cpu()]

        def warmed(timer: Timer) -> Timer:
            return lambda: clock.take(timer)[0]

        remote = RemoteVariants(
            variants, folder, inputs, pool, devices, warmed, partial(raise_lost, device_id)
        )
        return cls(remote, partial(CudaVariants.compile, mod, names, inputs, target, device_id))

    def time(self, work: Callable[[Timers], T]) -> T:
        """Call ``work`` with the timers of the variants, and of the one without a graph."""
        return self._remote.time(work)

    def shared_rounds(self) -> CudaVariants:
        """Return the variants in this process."""
        return self._in_this_process()

    def __call__(self, name: str, arguments: Sequence[Any]) -> Any:
        """Run one variant and return its results."""
        return self._remote(name, arguments)
