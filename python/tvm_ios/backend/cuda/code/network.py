# SPDX-License-Identifier: Apache-2.0
"""A scheduled network for a CUDA device as a Relax function: one call per stage, or one for all.

The kernels are one compiled module beside the function. Kernels copy the values that enter the
network and those that leave it, and change the layout of feature maps on the way. TVM captures all
calls between these copies as one CUDA graph, because only those calls work on tensors whose
addresses stay the same. A graph ends at a copy, so the copies of entering values come before all
stages, and those of leaving values after them.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import tvm
from tvm import relax

from ....graph.operators import Operator
from ....lowering.emitter import Emitter, Library, LoweredSchedule, Stages
from ....lowering.inplace import Slots
from ....lowering.value import Value, identity
from ....ops.tensor import TensorSpec
from ....relax_ir.expressions import static_shape
from ....schedule.synchronization import Synchronization
from ..kernels.copy import copy_kernel
from ..kernels.kernel import CudaKernel
from ..rules.layouts import CHANNELS_LAST
from ..stage.program import StageProgram
from ..stage.stage import CudaStage
from .build import KernelNames, build_kernels

RUN_STAGE = "tvm_ios.runtime.cuda.RunStage"


def _entering(original: relax.Function, stages: Stages[CudaStage]) -> list[relax.Var]:
    """Return the parameters that a stage reads."""
    read = {
        identity(value)
        for stage in stages
        if not isinstance(stage, Operator)
        for launch in stage.launches
        for value in launch.inputs
    }
    return [parameter for parameter in original.params if parameter in read]


def _leaving(original: relax.Function, stages: Stages[CudaStage]) -> set[relax.Var]:
    """Return the values that are read outside of the stages, or maybe in another dataflow block."""
    read = set(relax.analysis.free_vars(original.body.body))
    for stage in stages:
        if isinstance(stage, Operator):
            read.update(stage.inputs)
        else:
            inputs = (value for launch in stage.launches for value in launch.inputs)
            read.update(v for v in inputs if type(v) is relax.Var)
    return read


@dataclass
class CudaLibrary(Library[CudaStage]):
    """The kernels of all variants, by the names of their functions.

    Attributes
    ----------
    target : tvm.target.Target
    """

    target: tvm.target.Target
    names: KernelNames = field(default_factory=lambda: KernelNames("tvm_ios"))
    variables: dict[str, tvm.ir.GlobalVar] = field(default_factory=dict)

    def emitter(
        self, name: str, original: relax.Function, lowered: LoweredSchedule[CudaStage]
    ) -> Emitter[CudaStage]:
        return _CudaEmitter(
            relax.BlockBuilder(),
            library=self,
            synchronization=lowered.synchronization,
            slots=lowered.slots,
            layouts=lowered.layouts,
            entering=_entering(original, lowered.stages),
            leaving=_leaving(original, lowered.stages),
        )

    def variable(self, kernel: CudaKernel) -> tvm.ir.GlobalVar:
        """Return the variable that passes a kernel's function to a call."""
        name = self.names.name_of(kernel)
        if name not in self.variables:
            variable = tvm.ir.GlobalVar(name)
            relax.expr._update_type(variable, relax.FuncType.opaque_func())
            self.variables[name] = variable
        return self.variables[name]

    def handed_on(self) -> Iterable[tvm.ir.GlobalVar]:
        return self.variables.values()

    def compile(self) -> tvm.runtime.Module | None:
        if not self.names.kernels:
            return None
        return build_kernels(self.names.kernels, self.target).mod


@dataclass(kw_only=True)
class _CudaEmitter(Emitter[CudaStage]):
    library: CudaLibrary
    synchronization: Synchronization
    slots: Slots
    layouts: Mapping[relax.Var, Hashable]
    entering: list[relax.Var]
    leaving: set[relax.Var]
    _placed: dict[relax.Var, relax.Expr] = field(default_factory=dict)
    _computed: dict[relax.Var, relax.Expr] = field(default_factory=dict)
    _constants: dict[int, tuple[np.ndarray, relax.Expr]] = field(default_factory=dict)

    def begin(self) -> None:
        """Do nothing: no setup is needed."""

    def call(self, stages: tuple[CudaStage, ...], visible: Container[relax.Var]) -> None:
        """Emit the calls of ``stages``, after the copies of values that enter."""
        while self.entering:
            self._place(self.entering.pop(0))
        program = StageProgram.joined(stages, visible, self.synchronization, self.slots)
        if program.kernels:
            self._run(program)

    def keep(self, operator: Operator, *, exported: bool) -> None:
        for value in operator.inputs:
            self._leave(value)
        super().keep(operator, exported=exported)

    def export(self) -> None:
        """Export all computed values, and forget the placed ones.

        Another dataflow block cannot read placed values, so it places them again.
        """
        for value in list(self._computed):
            self._leave(value)
        super().export()
        self._placed.clear()

    def _run(self, program: StageProgram) -> None:
        """Emit the call of a program."""
        wanted = range(len(program.outputs))
        inputs = [self._place(value) for value in program.inputs]
        if program.single:
            (kernel,) = program.kernels
            name = self.library.names.name_of(kernel)
            results = self._call(name, inputs, program.written, wanted)
        else:
            kernels = map(self.library.variable, program.kernels)
            numbers = relax.ShapeExpr(program.numbers)
            arguments = [numbers, *kernels, *inputs]
            results = self._call(RUN_STAGE, arguments, program.written, wanted)
        for variable, result in zip(program.outputs, results, strict=True):
            self._placed[variable] = result
            if variable in self.leaving:
                self._computed[variable] = result

    def _leave(self, value: relax.Var) -> None:
        """Copy a stage's result to Relax's layout."""
        if value in self._computed:
            result = self._computed.pop(value)
            self._define(value, self._copy(result, self.layouts.get(value), None))

    def _place(self, value: Value) -> relax.Expr:
        """Return the tensor of a value in the layout that kernels read."""
        if isinstance(value, np.ndarray):
            if id(value) not in self._constants:  # keeps the array and its id alive
                # Without an explicit type TVM narrows 64 bits to 32.
                self._constants[id(value)] = (value, relax.const(value, str(value.dtype)))
            return self._constants[id(value)][1]
        if value not in self._placed:
            plain = self.values[value]
            self._placed[value] = self._copy(plain, None, self.layouts.get(value))
        return self._placed[value]

    def _copy(self, tensor: relax.Expr, now: Hashable, then: Hashable) -> relax.Expr:
        spec = TensorSpec(static_shape(tensor, "a tensor"), str(tensor.ty.dtype))
        permutations: dict[Hashable, tuple[int, ...]] = {
            (None, CHANNELS_LAST): (0, 2, 3, 1),
            (CHANNELS_LAST, None): (0, 3, 1, 2),
        }
        axes = permutations.get((now, then), tuple(range(len(spec.shape))))
        kernel = copy_kernel(spec, axes, self.library.target)
        (result,) = self._call(self.library.names.name_of(kernel), [tensor], kernel.outputs, [0])
        return result
