# SPDX-License-Identifier: Apache-2.0
"""The kernels and tensors of one network on a CUDA device, ready to time any stage."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from ....measure.stage_runner import Turn
from ....schedule.timeline import Span
from ....support.errors import device_errors
from ....tir.tensor import TensorSpec
from ...shared.implementation import Implementation, constants
from ...shared.stages import Stage
from ..kernels.kernel import CudaKernel
from ..rules.config import CudaLoweredGraph
from ..stage.stage import CudaStage, Launch, StageProgram, Value, identity
from .builder import CudaKernelBuilder
from .clock import warm_clock
from .weights import DTYPES, WeightsInMemory, weights_from

_RUNS = 10  # runs of a stage in one graph, which amortize the graph's launch


class CudaStageRunner:
    """The runner of a CUDA device: one tensor per value of the network and per constant.

    If the network's weights do not fit into L2, timed stages read theirs from memory.

    Parameters
    ----------
    lowered : LoweredGraph
        The network.
    builder : CudaKernelBuilder
        Compiles the kernels.
    device_id : int
        The device.
    seed : int
        Seed of the random contents of all tensors.
    """

    def __init__(
        self,
        lowered: CudaLoweredGraph,
        builder: CudaKernelBuilder,
        device_id: int,
        seed: int,
    ) -> None:
        self._lowered, self._builder = lowered, builder
        self._device = tvm.cuda(device_id)
        self._random = np.random.default_rng(seed)
        self._tensors: dict[object, tuple[Value, tvm.runtime.Tensor]] = {}
        self._scratch: dict[tuple[int, TensorSpec], tvm.runtime.Tensor] = {}
        self._from_memory = weights_from(lowered) == "memory"

    def time_alone(
        self, implementations: Sequence[Implementation[CudaKernel]], repeat: int
    ) -> Turn:
        """Time operators, each in a graph of several runs, ``repeat`` times."""
        launches = [Launch(i.kernel, 0, i.inputs, i.outputs) for i in implementations]
        pairs = zip(implementations, launches, strict=True)
        return self.time([CudaStage.of(Stage.single(i), [launch]) for i, launch in pairs], repeat)

    def time(self, stages: Sequence[CudaStage], repeat: int) -> Turn:
        """Time stages, each in a graph of several runs, ``repeat`` times.

        The device's clock is at its level under load, see :mod:`.clock`.
        """
        return Turn.steady(np.stack([self._time(stage, repeat) for stage in stages], axis=1))

    def _time(self, stage: CudaStage, repeat: int) -> np.ndarray:
        time = tvm_ffi.get_global_func("tvm_ios.runtime.cuda.TimeStage")
        with device_errors(self._device.index):
            runs = [self._arguments(stage, cold=True) for _ in range(_RUNS)]
            seconds, _ = warm_clock(self._device.index).take(
                lambda: time(repeat, runs, self._filler)
            )
        return np.asarray(seconds.numpy())

    def trace(self, stages: Sequence[CudaStage], repeat: int) -> list[Span]:
        """Record when each stream computes what, in the fastest of ``repeat`` runs of a network.

        All stages run as one graph, as they do in a compiled network. In the graph, each kernel
        stands between two events.
        """
        trace = tvm_ffi.get_global_func("tvm_ios.runtime.cuda.TraceStages")
        with device_errors(self._device.index):
            runs = trace(repeat, [self._arguments(stage) for stage in stages]).numpy()
        fastest = min(runs, key=lambda run: run.max())
        launches = [(n, launch) for n, stage in enumerate(stages) for launch in stage.launches]
        return [
            Span(
                worker=launch.stream,
                stage=number,
                level=number,
                operators=stages[number].computed_by(launch),
                kernel=launch.kernel.variant or launch.kernel.name,
                phase=0,
                begin=begin,
                end=end,
            )
            for (number, launch), (begin, end) in zip(launches, fastest.tolist(), strict=True)
        ]

    def _arguments(self, stage: CudaStage, *, cold: bool = False) -> list[Any]:
        """Return a stage's arguments of ``TimeStage``: its program, its kernels, its tensors."""
        program = stage.program
        kernels = [self._builder.function(kernel) for kernel in program.kernels]
        return [tvm_ffi.Shape(program.numbers), *kernels, *self._operands(stage, program, cold)]

    def _operands(self, stage: CudaStage, program: StageProgram, cold: bool) -> list[Any]:
        """Return the stage's tensors in the order in which its program numbers them."""
        specs = {
            identity(value): spec
            for launch in stage.launches
            for value, spec in zip(
                (*launch.inputs, *launch.outputs),
                (*launch.kernel.inputs, *launch.kernel.outputs),
                strict=True,
            )
        }
        values = (*program.inputs, *program.outputs)
        scratch = program.written[len(program.outputs) :]
        return [
            *(self._tensor(value, specs[identity(value)], cold) for value in values),
            *(self._memory(i, spec) for i, spec in enumerate(scratch)),
        ]

    def _tensor(self, value: Value, spec: TensorSpec, cold: bool) -> tvm.runtime.Tensor:
        if cold and self._from_memory and isinstance(value, np.ndarray) and spec.dtype in DTYPES:
            return self._weights.take(spec)
        key = identity(value)
        if key not in self._tensors:  # keeps the value alive, so that its identity stays unique
            array = value if isinstance(value, np.ndarray) else self._random_values(spec)
            self._tensors[key] = (value, tvm.runtime.tensor(array, self._device))
        return self._tensors[key][1]

    @cached_property
    def _weights(self) -> WeightsInMemory:
        return WeightsInMemory(constants(self._lowered, DTYPES), self._device, self._random)

    @cached_property
    def _filler(self) -> tvm.runtime.Tensor | None:
        """The tensor that overwrites L2 before runs that read weights from memory."""
        if not self._from_memory:
            return None
        return tvm.runtime.empty((self._lowered.config.l2_bytes,), "uint8", self._device)

    def _random_values(self, spec: TensorSpec) -> np.ndarray:
        if spec.dtype.startswith("float"):
            return self._random.standard_normal(spec.shape, "float32").astype(spec.dtype)
        return np.ones(spec.shape, spec.dtype)

    def _memory(self, number: int, spec: TensorSpec) -> tvm.runtime.Tensor:
        """Return scratch memory, which stages share: they are timed one after another."""
        key = (number, spec)
        if key not in self._scratch:
            self._scratch[key] = tvm.runtime.empty(spec.shape, spec.dtype, self._device)
        return self._scratch[key]
