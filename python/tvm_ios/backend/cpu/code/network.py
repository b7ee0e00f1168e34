# SPDX-License-Identifier: Apache-2.0
"""A scheduled network as a Relax function: one call per region.

The kernels and drivers of all regions are one compiled module beside the function. TVM keeps the
code of other code generators in the same place (``external_mods``). Equal kernels are compiled
once, and TVM's pipeline compiles the rest of the module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import tvm
from tvm import relax, tirx

from ....graph.operators import Operator
from ....graph.recognise import static_shape
from ....tir.tensor import TensorSpec
from ...shared.emitter import Emitter, Library, Stages, emit_functions
from ...shared.implementation import Slot
from .constants import Constants
from .driver import driver_function
from .functions import KernelFunctions, build_functions
from .region import LoweredStage, Region, form_region
from .thread_pool import defaults_function, set_defaults, use_workers


def emit_ways(
    mod: tvm.IRModule,
    function: str,
    ways: Mapping[str, Stages[LoweredStage]],
    slots: Mapping[relax.Var, Slot],
    workers: int,
    target: tvm.target.Target,
) -> tvm.IRModule:
    """Replace ``function`` in ``mod`` by one function per variant.

    Parameters
    ----------
    mod : tvm.IRModule
        The prepared module.
    function : str
        Name of the function to replace.
    ways : mapping of str to Stages
        The stages of each variant, by the name of its function, which may be ``function``.
    slots : mapping of relax.Var to Slot
        Values that are written in place into a concatenation.
    workers : int
        Threads that the functions request from TVM's thread pool.
    target : tvm.target.Target
        The target of the kernels.

    Returns
    -------
    tvm.IRModule
        A new module with the variants and their compiled kernels.
    """
    lowered = [s for stages in ways.values() for s in stages if not isinstance(s, Operator)]
    library = _Library(target, Constants.of(lowered))

    def emitter_of(name: str) -> Emitter[LoweredStage]:
        return _CpuEmitter(
            relax.BlockBuilder(),
            library=library,
            slots=slots,
            prefix=f"tvm_ios_{name}",
            workers=workers,
        )

    return emit_functions(mod, function, ways, emitter_of, library)


@dataclass
class _Library(Library):
    """The drivers and kernels of all regions, and their constants."""

    target: tvm.target.Target
    constants: Constants
    kernels: KernelFunctions = field(default_factory=KernelFunctions)
    drivers: dict[str, tirx.PrimFunc] = field(default_factory=dict)

    def add(self, name: str, region: Region, parameters: Sequence[TensorSpec]) -> None:
        self.drivers[name] = driver_function(
            name, region, parameters, self.kernels, self.constants, self.target
        )

    def compile(self) -> tvm.runtime.Module | None:
        if not self.drivers:
            return None
        return build_functions({**self.kernels.functions, **self.drivers}, self.target).mod


@dataclass(kw_only=True)
class _CpuEmitter(Emitter[LoweredStage]):
    library: _Library
    slots: Mapping[relax.Var, Slot]
    prefix: str
    workers: int
    _regions: int = 0

    @property
    def pure(self) -> bool:
        return self.workers == 1

    def begin(self) -> None:
        if self.workers > 1:
            name = f"{self.prefix}_thread_defaults"
            self.library.drivers[name] = defaults_function(name)
            self.builder.emit(set_defaults(name))
            self.builder.emit(use_workers(self.workers))

    def call(self, stages: tuple[LoweredStage, ...], visible: set[relax.Var]) -> None:
        """Emit one call of a region's driver, which writes the results and its workspace."""
        region = form_region(stages, visible, self.slots, self.library.constants.offsets)
        inputs = [self.values[value] for value in region.inputs]
        written = list(region.output_specs)
        if region.workspace_bytes:
            written.append(TensorSpec((region.workspace_bytes,), "uint8"))
        name = f"{self.prefix}_region{self._regions}"
        self._regions += 1
        self.library.add(name, region, [*map(_spec_of, inputs), *written])
        results = self._call(name, inputs, written, len(region.outputs))
        for variable, result in zip(region.outputs, results, strict=True):
            self._define(variable, result)


def _spec_of(expr: relax.Expr) -> TensorSpec:
    """Return the tensor that an input of a region is at run time."""
    return TensorSpec(static_shape(expr, "an input"), str(expr.ty.dtype))
