# SPDX-License-Identifier: Apache-2.0
"""The back end of CPUs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import tvm
from tvm import relax

from ..database import DeviceIdentity, MeasurementDatabase
from ..graph.operators import OperatorGraph
from ..lower.cpu_assemble import CpuAssembler
from ..lower.emitter import Stages
from ..lower.implement import implement
from ..lower.inplace import place_concatenations
from ..lower.network import emit_ways
from ..lower.region import LoweredStage
from ..lower.rules import Preferences
from ..lower.tuned import active_database
from ..measure.device import Span, weights_from
from ..measure.devices import Devices, trace
from ..measure.model import CompiledWays, Ways
from ..measure.records import Records
from ..measure.remote_model import RemoteWays
from ..measure.sites import Site
from ..options import Options
from ..target import TYPICAL, core_of, num_workers


class CpuBackend:
    """Stages are kernels whose tiles are shared out among threads.

    Parameters
    ----------
    target : tvm.target.Target
    site : Site
    options : Options
    database : MeasurementDatabase or None
        Keeps how far memory is away.
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
        target, winograd = self._target, self._options.winograd is not False
        preferences = Preferences(
            core_of(target),
            winograd,
            self.workers,
            active_database(),
            self._site.transfers(target, self._database) if winograd else TYPICAL,
        )
        lowered = place_concatenations(implement(graph, results, preferences))
        return CpuAssembler(lowered, self.workers)

    def identity(self) -> DeviceIdentity:
        return self._site.identity(self._target)

    def devices(self, assembler: CpuAssembler, seed: int) -> Devices:
        return self._site.devices(assembler.lowered, self._target, seed)

    def conditions(self, assembler: CpuAssembler) -> Hashable:
        return weights_from(assembler.lowered)

    def tune(self, assembler: CpuAssembler, devices: Devices, records: Records) -> CpuAssembler:
        """Rules have chosen the kernels."""
        return assembler

    def emit(
        self, mod: tvm.IRModule, function: str, ways: Mapping[str, Stages], assembler: CpuAssembler
    ) -> tvm.IRModule:
        slots = assembler.lowered.slots
        return emit_ways(mod, function, ways, slots, self.workers, self._target)

    def compile(
        self, ways: tvm.IRModule, names: Sequence[str], inputs: Sequence[Any], devices: Devices
    ) -> Ways:
        if self._site.remote:
            compiler = self._site.compiler
            return RemoteWays(ways, list(names), inputs, self._target, devices, compiler)
        return CompiledWays(ways, list(names), inputs, self._target, self.workers)

    def trace(self, stages: Mapping[int, Any], devices: Devices, repeat: int) -> list[Span]:
        """All stages run in one launch, as they do in a compiled network.

        Operators that TVM lowers have no kernel to run, and are left out.
        """
        kept = {n: stage for n, stage in stages.items() if isinstance(stage, LoweredStage)}
        kernels = [i.kernel for stage in kept.values() for i in stage.implementations]
        return trace(devices, kept, [kernel for kernel in kernels if kernel.phases], repeat)
