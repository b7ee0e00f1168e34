# SPDX-License-Identifier: Apache-2.0
"""The driver of a region: one parallel launch, with each worker's ranges of tiles as constants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import groupby, pairwise
from typing import Any

import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from ....lowering.implementation import Implementation
from ....ops.tensor import TensorSpec
from ....schedule.synchronization import Synchronization
from ..isa import amx
from ..kernels.kernel import Kernel
from ..stage.plan import Step, StripShare
from .constants import Constants
from .core_claims import CoreClaims
from .cpu_check import checked_cpu
from .functions import KernelFunctions
from .prefetch_target import Reading, find_prefetch_target
from .progress import Progress
from .recorder import Recorder
from .region import Place, Region
from .wait_check import WaitCheck, check_tables, checks
from .waits import positions, waits_of


def driver_function(
    name: str,
    region: Region,
    parameters: Sequence[TensorSpec],
    kernels: KernelFunctions,
    constants: Constants,
    target: tvm.target.Target,
    synchronization: Synchronization,
    recorder: Recorder | None = None,
) -> tirx.PrimFunc:
    """Build the public function of a region's inputs, outputs and workspace.

    Parameters
    ----------
    name : str
        Name of the function.
    region : Region
        The stages to run.
    parameters : sequence of TensorSpec
        The tensor passed for each parameter that the region's places refer to,
        :attr:`.Shadow.spec` if the region's waits are checked, and :attr:`.Recorder.spec`.
    kernels : KernelFunctions
        Collects the kernels that the function calls.
    constants : Constants
        The constants that the region's places refer to.
    target : tvm.target.Target
        The target of the code; on another CPU the function raises an error.
    synchronization : Synchronization
        How workers wait for each other.
    recorder : Recorder, optional
        Records when the workers compute what.

    Returns
    -------
    tvm.tirx.PrimFunc
        The driver.
    """
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(name)
        T.func_attr({"tirx.noalias": True})
        buffers = [
            T.arg(f"t{i}", T.buffer(spec.shape, spec.dtype, layout=None))
            for i, spec in enumerate(parameters)
        ]
        with checked_cpu(target, _needs_amx(region)), constants.declared():
            driver = _Driver(
                name, region, parameters, buffers, kernels, constants, target, synchronization
            )
            driver.emit(recorder)
    return builder.get()


def _needs_amx(region: Region) -> bool:
    kernels = [item.kernel for stage in region.stages for item in stage.implementations]
    return any(amx.needed(phase.sources) for kernel in kernels for phase in kernel.phases)


class _Driver:
    def __init__(
        self,
        name: str,
        region: Region,
        parameters: Sequence[TensorSpec],
        buffers: Sequence[Any],
        kernels: KernelFunctions,
        constants: Constants,
        target: tvm.target.Target,
        synchronization: Synchronization,
    ) -> None:
        self.region, self.kernels, self.constants = region, kernels, constants
        self.parameters, self.buffers = parameters, buffers
        self.workers = region.stages[0].plan.workers
        self.launched = positions(region.stages)
        self.plan = waits_of(synchronization, self.launched, region, kernels, self.workers)
        self.core_claims = CoreClaims(target)
        self.progress = Progress(name, self.plan, len(self.launched), self.workers, target)
        self.check: WaitCheck | None = None
        self.recorder: Recorder | None = None
        if checks(region):
            tables = check_tables(self.launched, region, kernels, self.workers)
            self.check = WaitCheck(name, tables, self.workers, buffers[region.num_parameters])

    def emit(self, recorder: Recorder | None) -> None:
        """Emit the launch; ``recorder`` has the last parameter."""
        self.recorder = recorder
        with recorder.launch(self.buffers[-1], self.plan) if recorder else nullcontext():
            self._emit_launch()

    def _emit_launch(self) -> None:
        """Emit all positions, in order; the workers wait for each other as the plan says."""
        if self.workers == 1:
            for number in range(len(self.launched)):
                self._emit_share(number, None)
            return
        zero, one = tirx.const(0, "int32"), tirx.const(1, "int32")
        with (
            self.core_claims.before_launch(),
            self.progress.before_launch(),
            self.check.launch() if self.check else nullcontext(),
            T.attr(zero, "pragma_parallel_launch_point", one),
        ):
            for level, numbers in groupby(range(len(self.launched)), self._level):
                with self._loop(level) as worker:
                    if level == 0:
                        self.core_claims.at_start(worker)
                    for number in numbers:
                        self._emit_position(number, worker)

    def _emit_position(self, number: int, worker: Any) -> None:
        """Emit what ``worker`` does at a position, and what it waits for before."""
        if self.check:
            self.check.delay(number, worker)
        self.progress.begin(number, worker)
        with self.check.around(number, worker) if self.check else nullcontext():
            self._emit_share(number, worker)
        self.progress.end(number, worker)

    def _level(self, number: int) -> int:
        return self.launched[number].level

    @contextmanager
    def _loop(self, level: int) -> Iterator[Any]:
        """Emit a loop over the workers, and the barrier after it if the next level needs one.

        Each level has its own loop. If the thread pool has fewer threads than there are workers, a
        thread then completes a level for all its workers before any of them waits for that level.
        """
        zero, one = tirx.const(0, "int32"), tirx.const(1, "int32")
        waits = any(self._level(number) == level + 1 for number in self.plan.barriers)
        barrier = T.attr(zero, "pragma_parallel_barrier_when_finish", one)
        with barrier if waits else nullcontext(), T.parallel(self.workers) as worker:
            yield worker

    def _emit_share(self, number: int, worker: Any) -> None:
        """Emit the part of ``worker`` in a share; None stands for the only worker."""
        stage, share = self.launched[number].stage, self.launched[number].share
        if isinstance(share, StripShare):
            for w, steps in enumerate(share.steps):
                with _only(w, worker) if steps else nullcontext():
                    self._emit_steps(number, w, steps)
            return
        implementation = stage.implementations[share.call]
        readings = [Reading(implementation, share.phase, tile) for tile in share.cuts[:-1]]
        distances = [self._distance(r, self._after(number, w)) for w, r in enumerate(readings)]
        begin, end = _per_worker(worker, share.cuts[:-1]), _per_worker(worker, share.cuts[1:])
        with self._recorded(number, 0 if worker is None else worker):
            self._call(implementation, share.phase, begin, end, _per_worker(worker, distances))

    def _emit_steps(self, number: int, worker: int, steps: Sequence[Step]) -> None:
        """Emit the row strips of a worker; a plane's weights are followed by those of the next."""
        for index, step in enumerate(steps):
            implementation = self.launched[number].stage.implementations[step.call]
            plane = implementation.kernel.strip_plane
            readings = [Reading(implementation, 0, o * plane.num_tiles) for o in range(plane.outer)]
            places = [reading.place(self.region) for reading in readings[1:]]
            places.append(self._after(number, worker) if step == steps[-1] else None)
            distances = list(map(self._distance, readings, places))
            with self._recorded(number, worker, index), T.serial(plane.outer) as outer:
                begin, end = (outer * plane.num_tiles + tile for tile in (step.begin, step.end))
                self._call(implementation, 0, begin, end, _per_worker(outer, distances))

    def _recorded(self, number: int, worker: Any, step: int = 0) -> AbstractContextManager[None]:
        return self.recorder.around(number, worker, step) if self.recorder else nullcontext()

    def _after(self, number: int, worker: int) -> int | None:
        """Return where the weights begin that a worker reads after a position, if it reads any."""
        return find_prefetch_target(self.launched, self.region, number, worker)

    def _distance(self, reading: Reading, place: int | None) -> int:
        """Return how far ``place`` is behind the weights of a kernel, or its tile's own weights."""
        own, whole = reading.place(self.region), reading._replace(tile=0).place(self.region)
        if own is None or whole is None:
            return 0
        return (own if place is None else place) - whole

    def _call(
        self,
        implementation: Implementation[Kernel],
        phase: int,
        begin: Any,
        end: Any,
        prefetch_target: Any,
    ) -> None:
        symbol = self.kernels.get(implementation.kernel, phase)
        pointers = [self._pointer(place) for place in self.region.places[id(implementation)]]
        ahead = [prefetch_target] if implementation.kernel.phases[phase].prefetches else []
        T.evaluate(T.call_extern("int32", symbol, *pointers, begin, end, *ahead))

    def _pointer(self, place: Place) -> Any:
        if place.parameter is None:
            return self.constants.pointer(place.offset)
        buffer, spec = self.buffers[place.parameter], self.parameters[place.parameter]
        if not place.offset:
            return buffer.data
        size = spec.num_bytes // spec.num_elements
        assert place.offset % size == 0, "a tensor begins at a whole element"
        return buffer.access_ptr("rw", offset=place.offset // size)


def _only(number: int, worker: Any) -> AbstractContextManager[None]:
    """Emit what follows for one worker; None stands for the only one."""
    return nullcontext() if worker is None else _if(worker == number)


@contextmanager
def _if(condition: Any) -> Iterator[None]:
    with T.If(condition), T.Then():
        yield


def _per_worker(worker: Any, values: Sequence[int]) -> Any:
    """Return ``values[worker]`` as an expression."""
    if worker is None:
        return tirx.const(values[0], "int32")
    result = tirx.const(values[-1], "int32")
    for w, (value, following) in reversed(list(enumerate(pairwise(values)))):
        if value != following or not isinstance(result, tirx.IntImm):
            result = tirx.Select(worker == w, tirx.const(value, "int32"), result)
    return result
