# SPDX-License-Identifier: Apache-2.0
"""The back end of CPUs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import tvm
from tvm import relax

from ...database import DeviceIdentity, MeasurementDatabase
from ...graph.operators import Operator, OperatorGraph
from ...measure.devices import Devices, ThisProcess, trace
from ...measure.model import Ways
from ...measure.records import Records
from ...measure.remote import RemoteDevices
from ...measure.session import LocalSession, RemoteSession
from ...measure.sites import Site
from ...schedule.options import Options
from ...schedule.timeline import Span
from ...target import TYPICAL, Transfers, core_of, num_workers
from ..shared.emitter import Stages, emit_functions
from ..shared.implementation import LoweredGraph, present
from ..shared.tuned import active_database
from .code.constants import Constants
from .code.network import CpuLibrary
from .code.region import LoweredStage
from .kernels.kernel import Kernel
from .measure.device import Device, weights_from
from .measure.libraries import KernelLibraries
from .measure.model import CompiledWays
from .measure.remote_model import RemoteWays
from .measure.transfers import transfers_of
from .rules import Preferences
from .stage.assemble import CpuAssembler


class CpuBackend:
    """The CPU back end: stages are kernels whose tiles the threads share.

    Parameters
    ----------
    target : tvm.target.Target
        The resolved target.
    site : Site
        Where stages are timed.
    options : Options
    database : MeasurementDatabase or None
        Keeps the machine balance.
    """

    checks_indices = True

    def __init__(
        self,
        target: tvm.target.Target,
        site: Site,
        options: Options,
        database: MeasurementDatabase | None,
    ) -> None:
        self._target, self._site, self._options = target, site, options
        self._database = database
        self.workers = num_workers(target)

    def assemble(self, graph: OperatorGraph, results: Sequence[relax.Var]) -> CpuAssembler:
        """Choose a kernel for every operator, and return the stage builder of the network."""
        target, winograd = self._target, self._options.winograd is not False
        preferences = Preferences(
            core_of(target),
            winograd,
            self.workers,
            active_database(),
            self._transfers() if winograd else TYPICAL,
        )
        return CpuAssembler.of(graph, results, preferences)

    def _transfers(self) -> Transfers:
        """Measure the machine balance; take typical values for another machine.

        The balance only affects the choice of kernels.
        """
        if self._site.machine is not None:
            return TYPICAL
        return transfers_of(self._target, self._database)

    def identity(self) -> DeviceIdentity:
        """Return the identity of the device whose latencies are measured."""
        machine = self._site.machine
        if machine is None:
            return DeviceIdentity.here(self._target)
        return DeviceIdentity.of(machine.cpu, self._target, self.workers)

    def devices(self, assembler: CpuAssembler, seed: int) -> Devices[Kernel, LoweredStage]:
        """Return the runners of this process, or those that the site connects to."""
        site, lowered, kernels = self._site, assembler.lowered, network_kernels(assembler.lowered)
        if site.source is None:
            libraries = KernelLibraries(self._target, kernels)
            device = Device(lowered, libraries, LocalSession(), seed)
            return ThisProcess(device, libraries, self.workers)
        libraries = KernelLibraries(self._target, kernels, linked=True, compiler=site.compiler)

        def make(session: RemoteSession) -> Device:
            session.call("UseWorkers", self.workers)
            return Device(lowered, libraries, session, seed)

        return RemoteDevices(site.source, site.connect(), make, libraries)

    def conditions(self, assembler: CpuAssembler) -> Hashable:
        """Return the memory level that timed stages read their weights from."""
        return weights_from(assembler.lowered)

    def tune(
        self, assembler: CpuAssembler, devices: Devices[Kernel, LoweredStage], records: Records
    ) -> CpuAssembler:
        """Return ``assembler`` unchanged: the rules have chosen the kernels.

        Parameters
        ----------
        assembler : CpuAssembler
            The stage builder.
        devices : Devices
            Not read.
        records : Records
            Not read.

        Returns
        -------
        CpuAssembler
            ``assembler``.
        """
        return assembler

    def emit(
        self,
        mod: tvm.IRModule,
        function: str,
        ways: Mapping[str, Stages[LoweredStage]],
        assembler: CpuAssembler,
    ) -> tvm.IRModule:
        """Replace ``function`` in ``mod`` by one function per variant.

        Parameters
        ----------
        mod : tvm.IRModule
            The prepared module.
        function : str
            Name of the function to replace.
        ways : mapping of str to Stages
            The stages of each variant, by the name of its function.
        assembler : CpuAssembler
            The stage builder of the network.

        Returns
        -------
        tvm.IRModule
            A new module with the variants and their compiled kernels.
        """
        lowered = [s for stages in ways.values() for s in stages if not isinstance(s, Operator)]
        slots = assembler.lowered.slots
        library = CpuLibrary(self._target, Constants.of(lowered), slots, self.workers)
        return emit_functions(mod, function, ways, library)

    def compile(
        self,
        ways: tvm.IRModule,
        names: Sequence[str],
        inputs: Sequence[Any],
        devices: Devices[Kernel, LoweredStage],
    ) -> Ways:
        """Compile whole models, to be timed on this machine or on the site's.

        Parameters
        ----------
        ways : tvm.IRModule
            Holds a function for each variant.
        names : sequence of str
            The functions.
        inputs : sequence of tensors
            The inputs to time the variants with.
        devices : Devices
            The runner pool.

        Returns
        -------
        Ways
            The compiled variants.
        """
        if self._site.machine is not None:
            compiler = self._site.compiler
            return RemoteWays(ways, list(names), inputs, self._target, devices, compiler)
        return CompiledWays(ways, list(names), inputs, self._target, self.workers)

    def trace(
        self,
        stages: Mapping[int, LoweredStage | Operator],
        devices: Devices[Kernel, LoweredStage],
        repeat: int,
    ) -> list[Span]:
        """Record when each worker computes what.

        All stages run in one launch, as they do in a compiled network. Operators that are left to
        TVM's default lowering have no kernel to run; the trace leaves them out.

        Parameters
        ----------
        stages : mapping of int to LoweredStage or Operator
            The stages, by number.
        devices : Devices
            The runner pool.
        repeat : int
            Number of runs, of which the fastest counts.

        Returns
        -------
        list of Span
            One per call and worker.
        """
        kept = {n: stage for n, stage in stages.items() if isinstance(stage, LoweredStage)}
        kernels = [i.kernel for stage in kept.values() for i in stage.implementations]
        return trace(devices, kept, [kernel for kernel in kernels if kernel.phases], repeat)


def network_kernels(lowered: LoweredGraph[Kernel]) -> list[Kernel]:
    """Return the kernels of a network's operators."""
    return [implementation.kernel for implementation in present(lowered)]
