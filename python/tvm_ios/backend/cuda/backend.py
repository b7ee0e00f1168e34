# SPDX-License-Identifier: Apache-2.0
"""The back end of CUDA devices."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax

from ...database import DeviceIdentity
from ...database.identity import gpu_model
from ...graph.operators import OperatorGraph
from ...lowering.emitter import Network, emit_networks
from ...lowering.export import check_linker
from ...lowering.tuned import active_database
from ...measure.cache import MeasurementCache
from ...measure.timing.models import Variants
from ...measure.transport.locations import Runner
from ...measure.transport.pool import LocalPool, RunnerPool
from ...measure.transport.remote_pool import RemotePool
from ...measure.transport.session import LocalSession, Session
from ...schedule.options import Options
from ...schedule.timeline import Span, Timeline
from ...support.errors import DeviceError, OptionError, ScheduleError
from .code.network import CudaLibrary
from .code.toolchain import check_compiler
from .kernels.kernel import CudaKernel
from .measure.builder import CudaKernelBuilder
from .measure.isolated_model import IsolatedVariants
from .measure.model import CudaVariants
from .measure.runner import CudaStageRunner
from .measure.tune import tuned
from .measure.weights import weights_from
from .rules.config import CudaLoweringConfig
from .rules.implement import implement_in_place
from .stage.build import CudaStageBuilder
from .stage.ordering import joined
from .stage.stage import CudaStage
from .target import check_architecture, check_device, check_precision, describe, device_for


class CudaBackend:
    """The CUDA back end: stages are kernels on parallel streams, or one fused launch.

    Parameters
    ----------
    target : tvm.target.Target
        The resolved target.
    runner : Runner
        Its ``device_id`` is the device that measures.
    options : Options
    """

    workers = 1
    checks_indices = False
    attention_depth = 0
    recurrences = False
    halves = True
    transposed = True

    def __init__(self, target: tvm.target.Target, runner: Runner, options: Options) -> None:
        check_architecture(target)
        check_precision(target, options.precision)
        if active_database() is not None:
            raise OptionError(
                "Tuning records of MetaSchedule are for CPUs; leave them out for a GPU, whose "
                "kernels are chosen by measuring."
            )
        self._target, self._runner, self._device_id = target, runner, runner.device_id
        self._options = options

    def stage_builder(self, graph: OperatorGraph, results: Sequence[relax.Var]) -> CudaStageBuilder:
        """Find the candidate kernels of every operator, and return the network's stage builder."""
        device = device_for(self._target, self._device_id)
        precision = self._options.precision
        assert precision != "auto", "the target kind has refused it"
        assert precision != "model", "the scheduler has said what that is"
        config = CudaLoweringConfig(
            self._target,
            precision,
            device.limits,
            cudnn=self._device_id if self._options.cudnn else None,
        )
        return CudaStageBuilder(network=implement_in_place(graph, results, config))

    def identity(self) -> DeviceIdentity:
        """Return the identity of the device whose latencies are measured."""
        device = describe(self._device_id)
        return DeviceIdentity.of(gpu_model(device.name, device.driver), self._target)

    def pool(self, stage_builder: CudaStageBuilder, seed: int) -> RunnerPool[CudaKernel, CudaStage]:
        """Return the runner of the device in this machine: in this process, or in another one.

        Raises
        ------
        DeviceError, TargetError
            If there is no device, or it cannot run code for the target.
        OptionError
            If there is no compiler or linker.
        """
        check_compiler(self._target)
        check_device(self._target, self._device_id)
        check_linker()
        builder, provider = CudaKernelBuilder(self._target), self._runner.provider

        def make(session: Session) -> CudaStageRunner:
            return CudaStageRunner(stage_builder.network, builder, session, self._device_id, seed)

        if provider is None:
            return LocalPool(make(LocalSession()), builder)
        return RemotePool.open(provider, self._runner.connect(), make, builder)

    def conditions(self, stage_builder: CudaStageBuilder) -> Hashable:
        """Return the memory level that timed stages read their weights from."""
        return "graph", weights_from(stage_builder.lowered)

    def tune(
        self,
        stage_builder: CudaStageBuilder,
        pool: RunnerPool[CudaKernel, CudaStage],
        cache: MeasurementCache,
    ) -> CudaStageBuilder:
        """Return the stage builder with the fastest kernel of each operator."""
        return tuned(stage_builder, pool, cache)

    def emit(self, networks: Sequence[Network[CudaStage]]) -> tvm.IRModule:
        """Emit one function per variant of a network.

        Raises
        ------
        OptionError
            If there is no compiler.
        """
        check_compiler(self._target)  # scheduling does not need one
        return emit_networks(networks, CudaLibrary(self._target))

    def compile(
        self,
        variants: tvm.IRModule,
        names: Sequence[str],
        inputs: Sequence[Any],
        pool: RunnerPool[CudaKernel, CudaStage],
    ) -> Variants:
        """Compile whole models, to be timed on this machine's device where stages are measured."""
        if self._runner.provider is not None:
            return IsolatedVariants.compile(
                variants, names, inputs, self._target, self._device_id, pool
            )
        return CudaVariants.compile(variants, names, inputs, self._target, self._device_id)

    def trace(
        self,
        network: Network[CudaStage],
        inputs: Sequence[Any],
        pool: RunnerPool[CudaKernel, CudaStage],
        repeat: int,
    ) -> Timeline:
        """Record when each stream computes what, in the fastest of several runs.

        All stages run as one CUDA graph, in the order that they have in a compiled network, on
        random inputs. Operators that are left to TVM's default lowering have no kernel to run.
        """
        (lowered,) = network.variants.values()
        kept = {n: s for n, s in enumerate(lowered.stages) if isinstance(s, CudaStage)}
        numbers = [n for n, stage in kept.items() for _ in stage.launches]
        if not numbers:
            raise ScheduleError("No stage of the schedule has a kernel to run; TVM lowers it all.")
        whole, _ = joined(tuple(kept.values()), lowered.synchronization, lowered.slots)
        pool.compile([launch.kernel for launch in whole.launches])

        def run(runner: Any, stage: CudaStage) -> np.ndarray:
            return runner.trace(stage, repeat)

        found: list[np.ndarray | None] = []
        pool.each([whole], run, lambda _, seconds: found.append(seconds))
        if found[0] is None:
            raise DeviceError("The network failed on the device when its timeline was recorded.")
        rows = zip(whole.launches, numbers, found[0].tolist(), strict=True)
        return Timeline(
            tuple(
                Span(
                    worker=launch.stream,
                    stage=number,
                    operators=whole.computed_by(launch),
                    kernel=launch.kernel.variant or launch.kernel.name,
                    phase=0,
                    begin=begin,
                    end=end,
                )
                for launch, number, (begin, end) in rows
            )
        )
