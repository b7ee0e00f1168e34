# SPDX-License-Identifier: Apache-2.0
"""A scheduled network as a Relax function: one call per region.

The drivers of all regions are one compiled module beside the function, into which the kernels are
imported as object code. TVM keeps the code of other code generators in the same place
(``external_mods``). Equal kernels are compiled once, and TVM's pipeline compiles the rest of the
module.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import tvm
from tvm import relax, tirx

from ....lowering.emitter import Emitter, Library, LoweredSchedule
from ....lowering.implementation import Slot
from ....ops.tensor import TensorSpec
from ....relax_ir.expressions import opened_of, static_shape
from ....relax_ir.parts import is_part
from ....schedule.synchronization import Synchronization
from ....sizes.size import OpenSizes
from ..stage.stage import CpuStage
from .constants import Constants
from .driver import driver_function
from .functions import KernelFunctions, build_drivers
from .launch_code import LaunchCode, launches_source
from .recorder import Recorder
from .region import Region, form_region
from .size_check import checked_sizes, name_of_check, size_check
from .thread_pool import defaults_source, set_num_threads
from .wait_check import Shadow, check_functions, checks


@dataclass
class CpuLibrary(Library[CpuStage]):
    """The drivers and kernels of all regions, and their constants.

    Attributes
    ----------
    target : tvm.target.Target
        The target of the kernels.
    constants : Constants
        The constants of all stages.
    workers : int
        Threads that the functions request from TVM's thread pool.
    record : bool
        Whether the functions also return when their workers compute what.
    recorders : list of Recorder
        Those of the regions, in order, if they record.
    drivers : dict of str to tirx.PrimFunc
        The functions of regions.
    launches : list of LaunchCode
        What the drivers call.
    check_functions : dict of str to tirx.PrimFunc
        Functions that drivers call to check their waits.
    """

    target: tvm.target.Target
    constants: Constants
    workers: int
    record: bool = False
    recorders: list[Recorder] = field(default_factory=list)
    drivers: dict[str, tirx.PrimFunc] = field(default_factory=dict)
    launches: list[LaunchCode] = field(default_factory=list)
    check_functions: dict[str, tirx.PrimFunc] = field(default_factory=dict)

    @cached_property
    def kernels(self) -> KernelFunctions:
        return KernelFunctions(self.target)

    def emitter(
        self, name: str, original: relax.Function, lowered: LoweredSchedule[CpuStage]
    ) -> Emitter[CpuStage]:
        opened = opened_of(original)
        if opened is not None and is_part(original) and not opened.of_branch:
            opened = None  # the network has checked them
        if opened is not None:
            check = name_of_check(name)
            self.drivers[check] = size_check(check, original, opened)
        return _CpuEmitter(
            relax.BlockBuilder(),
            library=self,
            name=name,
            opened=opened,
            synchronization=lowered.synchronization,
            slots=lowered.slots,
            is_part=is_part(original),
        )

    def add(
        self,
        name: str,
        region: Region,
        parameters: Sequence[TensorSpec],
        synchronization: Synchronization,
        recorder: Recorder | None,
    ) -> None:
        self.drivers[name], launch = driver_function(
            name,
            region,
            parameters,
            self.kernels,
            self.constants,
            self.target,
            synchronization,
            recorder,
        )
        self.launches.append(launch)
        if checks(region):
            self.check_functions |= check_functions(name, region, self.kernels)

    def compile(self) -> tvm.runtime.Module | None:
        if not self.drivers and self.workers == 1:
            return None
        data = [self.constants.module] if self.constants.num_bytes else []
        source = launches_source(self.launches, self.target)
        if self.workers > 1:
            source = "\n".join((source, defaults_source()))
        return build_drivers(self.drivers, self.kernels, data, self.check_functions, source)


@dataclass(kw_only=True)
class _CpuEmitter(Emitter[CpuStage]):
    library: CpuLibrary
    name: str
    opened: OpenSizes | None
    synchronization: Synchronization
    slots: Mapping[relax.Var, Slot]
    is_part: bool
    _regions: int = 0
    _recorded: list[relax.Var] = field(default_factory=list)

    @property
    def pure(self) -> bool:
        return not self._configures and self.opened is None

    @property
    def _configures(self) -> bool:
        """Whether it configures TVM's thread pool, which the network does for its parts."""
        return self.library.workers > 1 and not self.is_part

    @property
    def _records(self) -> bool:
        return self.library.record and not self.is_part

    def begin(self) -> None:
        if self._configures:
            self.builder.emit(set_num_threads(self.library.workers))
        if self.opened is not None:
            self.builder.emit(checked_sizes(name_of_check(self.name), self.opened))

    def call(self, stages: tuple[CpuStage, ...], visible: Container[relax.Var]) -> None:
        """Emit one call of a region's driver, which writes the results and its workspace."""
        library = self.library
        region = form_region(stages, visible, self.slots, library.constants.offsets)
        inputs = [self.values[value] for value in region.inputs]
        written = list(region.output_specs)
        if region.has_workspace:
            written.append(TensorSpec((region.workspace_bytes,), "uint8"))
        if checks(region):
            written.append(Shadow(region).spec)
        name = f"tvm_ios_{self.name}_region{self._regions}"
        self._regions += 1
        variables, wanted = list(region.outputs), list(range(len(region.outputs)))
        recorder = Recorder(region) if self._records else None
        if recorder is not None:
            library.recorders.append(recorder)
            self._recorded.append(relax.Var("recorded"))
            variables.append(self._recorded[-1])
            wanted.append(len(written))
            written.append(recorder.spec)
        specs = [*map(_spec_of, inputs), *written]
        library.add(name, region, specs, self.synchronization, recorder)
        dimensions = [] if region.opened is None else region.opened.variables
        results = self._call(name, [*inputs, *dimensions], written, wanted)
        for variable, result in zip(variables, results, strict=True):
            self._define(variable, result)

    def returned(self, result: relax.Expr) -> relax.Expr:
        results = self.translate(result)
        if not self._records:
            return results
        return relax.Tuple([results, *(self.values[variable] for variable in self._recorded)])


def _spec_of(expr: relax.Expr) -> TensorSpec:
    """Return the tensor that an input of a region is at run time."""
    return TensorSpec(static_shape(expr, "an input"), str(expr.ty.dtype))
