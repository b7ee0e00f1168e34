# SPDX-License-Identifier: Apache-2.0
"""The driver of a region: one parallel launch, with each worker's ranges of tiles as constants."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from ....tir.tensor import TensorSpec
from ...shared.implementation import Implementation
from ..kernels.kernel import Kernel
from ..stage.plan import Share, Step, StripShare
from ..stage.stage import CpuStage
from .constants import Constants
from .cpu_check import checked_cpu
from .functions import KernelFunctions
from .region import Place, Region
from .separation import Separation


def driver_function(
    name: str,
    region: Region,
    parameters: Sequence[TensorSpec],
    kernels: KernelFunctions,
    constants: Constants,
    target: tvm.target.Target,
) -> tirx.PrimFunc:
    """Build the public function of a region's inputs, outputs and workspace.

    Parameters
    ----------
    name : str
        Name of the function.
    region : Region
        The stages to run.
    parameters : sequence of TensorSpec
        The tensor passed for each parameter that the region's places refer to.
    kernels : KernelFunctions
        Collects the kernels that the function calls.
    constants : Constants
        The constants that the region's places refer to.
    target : tvm.target.Target
        The target of the code; on another CPU the function raises an error.

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
        with checked_cpu(target), constants.linked():
            separation = Separation(target)
            _Driver(region, parameters, buffers, kernels, constants, separation).emit()
    return builder.get()


class _Driver:
    def __init__(
        self,
        region: Region,
        parameters: Sequence[TensorSpec],
        buffers: Sequence[Any],
        kernels: KernelFunctions,
        constants: Constants,
        separation: Separation,
    ) -> None:
        self.region, self.kernels, self.constants = region, kernels, constants
        self.separation = separation
        self.parameters, self.buffers = parameters, buffers
        self.workers = region.stages[0].plan.workers

    def emit(self) -> None:
        """Emit all levels of all stages, in order, with a barrier between two levels."""
        levels = [(stage, level) for stage in self.region.stages for level in stage.plan.levels]
        if self.workers == 1:
            for stage, level in levels:
                self._emit_level(stage, level, None)
            return
        zero, one = tirx.const(0, "int32"), tirx.const(1, "int32")
        with (
            self.separation.before_launch(),
            T.attr(zero, "pragma_parallel_launch_point", one),
        ):
            for number, (stage, level) in enumerate(levels):
                with (
                    T.attr(zero, "pragma_parallel_barrier_when_finish", one),
                    T.parallel(self.workers) as worker,
                ):
                    if number == 0:
                        self.separation.at_start(worker)
                    self._emit_level(stage, level, worker)

    def _emit_level(
        self, stage: CpuStage, level: Sequence[Share | StripShare], worker: Any
    ) -> None:
        """Emit the shares of ``worker`` one after another; None stands for the only worker."""
        for share in level:
            if isinstance(share, StripShare):
                self._emit_strips(stage, share, worker)
            else:
                begin = _per_worker(worker, share.cuts[:-1])
                end = _per_worker(worker, share.cuts[1:])
                self._call(stage.implementations[share.call], share.phase, begin, end)

    def _emit_strips(self, stage: CpuStage, share: StripShare, worker: Any) -> None:
        for number, steps in enumerate(share.steps):
            if worker is None:
                self._emit_steps(stage, steps)
            elif steps:
                with T.If(worker == number), T.Then():
                    self._emit_steps(stage, steps)

    def _emit_steps(self, stage: CpuStage, steps: Sequence[Step]) -> None:
        for step in steps:
            implementation = stage.implementations[step.call]
            plane = implementation.kernel.strip_plane
            with T.serial(plane.outer) as outer:
                first = outer * plane.tiles
                self._call(implementation, 0, first + step.begin, first + step.end)

    def _call(
        self, implementation: Implementation[Kernel], phase: int, begin: Any, end: Any
    ) -> None:
        function = self.kernels.get(implementation.kernel, phase)
        pointers = [self._pointer(place) for place in self.region.places[id(implementation)]]
        T.evaluate(tvm.ir.Call(function, [*pointers, begin, end]))

    def _pointer(self, place: Place) -> Any:
        if place.parameter is None:
            return self.constants.pointer(place.offset)
        buffer, spec = self.buffers[place.parameter], self.parameters[place.parameter]
        if not place.offset:
            return buffer.data
        size = spec.num_bytes // spec.num_elements
        assert place.offset % size == 0, "a tensor begins at a whole element"
        return buffer.access_ptr("rw", offset=place.offset // size)


def _per_worker(worker: Any, values: Sequence[int]) -> Any:
    """Return ``values[worker]`` as an expression."""
    if worker is None:
        return tirx.const(values[0], "int32")
    result = tirx.const(values[-1], "int32")
    for w, (value, following) in reversed(list(enumerate(pairwise(values)))):
        if value != following or not isinstance(result, tirx.IntImm):
            result = tirx.Select(worker == w, tirx.const(value, "int32"), result)
    return result
