# SPDX-License-Identifier: Apache-2.0
"""The back end of CPUs."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import tvm
from tvm import relax

from ...database import DeviceIdentity, MeasurementDatabase
from ...graph.operators import Operator, OperatorGraph
from ...lowering.emitter import Network, emit_networks
from ...lowering.export import export
from ...lowering.implementation import LoweredGraph, present
from ...lowering.tuned import active_database
from ...measure.cache import MeasurementCache
from ...measure.timing.models import Variants
from ...measure.transport.locations import Runner
from ...measure.transport.pool import LocalPool, RunnerPool
from ...measure.transport.remote_model import RemoteVariants, Variant
from ...measure.transport.remote_pool import RemotePool
from ...measure.transport.session import LocalSession, RemoteSession
from ...schedule.options import Options
from ...schedule.timeline import Timeline
from ...support.errors import ScheduleError
from ...support.folders import TemporaryFolder
from ...target import num_workers
from .code.constants import Constants
from .code.network import CpuLibrary
from .core import TYPICAL, MachineBalance, core_of
from .kernels.attention.attention import MOST_DEPTH
from .kernels.kernel import Kernel
from .measure.balance import machine_balance
from .measure.builder import CpuKernelBuilder
from .measure.model import CompiledVariants
from .measure.runner import CpuStageRunner, weights_from
from .measure.timeline import timeline
from .measure.tune import tuned
from .rules import LoweringConfig
from .stage.build import CpuStageBuilder
from .stage.stage import CpuStage


class CpuBackend:
    """The CPU back end: stages are kernels whose tiles the threads share.

    Parameters
    ----------
    target : tvm.target.Target
        The resolved target.
    runner : Runner
        Where stages are timed.
    options : Options
    database : MeasurementDatabase or None
        Keeps the machine balance.
    int8 : bool
        Whether quantised networks are computed in integers.
    """

    checks_indices = True
    attention_depth = MOST_DEPTH
    recurrences = True
    halves = False
    transposed = False

    def __init__(
        self,
        target: tvm.target.Target,
        runner: Runner,
        options: Options,
        database: MeasurementDatabase | None,
        int8: bool = False,
    ) -> None:
        self._target, self._runner, self._options = target, runner, options
        self._database, self._int8 = database, int8
        self.workers = num_workers(target)

    def stage_builder(self, graph: OperatorGraph, results: Sequence[relax.Var]) -> CpuStageBuilder:
        """Choose a kernel for every operator, and return the stage builder of the network."""
        target, winograd = self._target, self._options.winograd is not False
        precision = self._options.precision
        assert precision != "auto", "the target kind has said what auto is"
        assert precision != "model", "the scheduler has said what that is"
        config = LoweringConfig(
            core_of(target),
            winograd,
            self.workers,
            active_database(),
            self._balance() if winograd else TYPICAL,
            precision=precision,
            int8=self._int8,
        )
        return CpuStageBuilder.of(graph, results, config)

    def _balance(self) -> MachineBalance:
        """Measure the machine balance; take typical values for another machine.

        The balance only affects the choice of kernels.
        """
        if self._runner.machine is not None:
            return TYPICAL
        return machine_balance(self._target, self._database)

    def identity(self) -> DeviceIdentity:
        """Return the identity of the device whose latencies are measured."""
        machine = self._runner.machine
        if machine is None:
            return DeviceIdentity.here(self._target)
        return DeviceIdentity.of(machine.cpu, self._target, self.workers)

    def pool(self, stage_builder: CpuStageBuilder, seed: int) -> RunnerPool[Kernel, CpuStage]:
        """Return the runners of this process, or remote ones."""
        runner, lowered, kernels = (
            self._runner,
            stage_builder.lowered,
            network_kernels(stage_builder.lowered),
        )
        if runner.provider is None:
            builder = CpuKernelBuilder(self._target, kernels)
            device = CpuStageRunner(lowered, builder, LocalSession(), seed)
            return LocalPool(device, builder)
        builder = CpuKernelBuilder(self._target, kernels, compiler=runner.compiler)

        def make(session: RemoteSession) -> CpuStageRunner:
            return CpuStageRunner(lowered, builder, session, seed)

        return RemotePool.open(runner.provider, runner.connect(), make, builder)

    def conditions(self, stage_builder: CpuStageBuilder) -> Hashable:
        """Return the memory level that timed stages read their weights from."""
        return weights_from(stage_builder.lowered)

    def tune(
        self,
        stage_builder: CpuStageBuilder,
        pool: RunnerPool[Kernel, CpuStage],
        cache: MeasurementCache,
    ) -> CpuStageBuilder:
        """Return the stage builder with the fastest kernel of each operator that has a choice."""
        return tuned(stage_builder, pool, cache)

    def emit(self, networks: Sequence[Network[CpuStage]]) -> tvm.IRModule:
        """Emit one function per variant of a network; equal constants are shared."""
        return emit_networks(networks, self._library(networks))

    def _library(self, networks: Sequence[Network[CpuStage]], record: bool = False) -> CpuLibrary:
        emitted = [n for network in networks for n in (network, *network.parts)]
        variants = [v for network in emitted for v in network.variants.values()]
        stages = [s for v in variants for s in v.stages if not isinstance(s, Operator)]
        return CpuLibrary(self._target, Constants.of(stages), self.workers, record)

    def compile(
        self,
        variants: tvm.IRModule,
        names: Sequence[str],
        inputs: Sequence[Any],
        pool: RunnerPool[Kernel, CpuStage],
    ) -> Variants:
        """Compile whole models, to be timed here or where stages are measured."""
        if self._runner.machine is not None:
            folder = TemporaryFolder()
            library, target = folder.path / "models.so", self._target
            built = tvm.compile(variants, target, relax_pipeline=relax.get_default_pipeline(target))
            export(built, library, self._runner.compiler)
            found = {name: Variant(library, name) for name in names}
            return RemoteVariants(found, folder, inputs, pool)
        return CompiledVariants.compile(variants, names, inputs, self._target, self.workers)

    def trace(
        self,
        network: Network[CpuStage],
        inputs: Sequence[Any],
        pool: RunnerPool[Kernel, CpuStage],
        repeat: int,
    ) -> Timeline:
        """Record when each worker computes what, in the fastest of several runs.

        The compiled network runs, with a clock read before and after each call of a kernel.
        Operators that are left to TVM's default lowering are gaps.
        """
        ((name, lowered),) = network.variants.items()
        library = self._library([network], record=True)
        module = emit_networks([network], library)
        if not library.recorders:
            raise ScheduleError("No stage of the schedule has a kernel to run; TVM lowers it all.")
        variants = self.compile(module, [name], inputs, pool)
        runs = [[times.numpy() for times in variants(name, inputs)[1:]] for _ in range(repeat)]
        numbers = {id(stage): number for number, stage in enumerate(lowered.stages)}
        found = [timeline(list(zip(library.recorders, run, strict=True)), numbers) for run in runs]
        return min(found, key=lambda run: run.seconds)


def network_kernels(lowered: LoweredGraph[Kernel]) -> list[Kernel]:
    """Return the kernels of a network's operators."""
    return [implementation.kernel for implementation in present(lowered)]
