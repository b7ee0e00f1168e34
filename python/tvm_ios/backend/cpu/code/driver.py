# SPDX-License-Identifier: Apache-2.0
"""The driver of a region: a function of tensors that runs one launch."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from ....lowering.implementation import Implementation
from ....ops.index_check import raise_index_error
from ....ops.tensor import TensorSpec
from ....ops.tir_function import on_stack
from ....schedule.synchronization import Synchronization
from ....sizes.size import AnySize, OpenSizes, Size
from ..isa import amx
from ..kernels.kernel import Kernel
from .arguments import expected
from .constants import Constants
from .core_claims import CoreClaims
from .cpu_check import checked_cpu
from .functions import KernelFunctions
from .launch_code import FINDING, KernelCall, LaunchCode
from .launch_tables import Part, launch_tables
from .recorder import Recorder
from .region import Place, Region
from .size_check import check_sizes, counts_of_region
from .units import Unit, units_of
from .wait_check import Shadow, WaitCheck, checks
from .waits import positions, waits_of

_DATA = 1  # TVM's number of that field of a DLTensor
_FAILED = "A kernel of the network failed, for want of memory; free some and call it again."


def driver_function(
    name: str,
    region: Region,
    parameters: Sequence[TensorSpec],
    kernels: KernelFunctions,
    constants: Constants,
    target: tvm.target.Target,
    synchronization: Synchronization,
    recorder: Recorder | None = None,
) -> tuple[tirx.PrimFunc, LaunchCode]:
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
    LaunchCode
        What it calls.
    """
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(name)
        T.func_attr({"tirx.noalias": True})
        read = len(region.inputs)
        tensors = [T.arg(f"t{i}", T.handle()) for i in range(read)]
        for variable in region.opened.variables if region.opened else []:
            T.arg(variable.name, variable)
        tensors += [T.arg(f"t{i}", T.handle()) for i in range(read, len(parameters))]
        driver = _Driver(name, region, parameters, kernels, constants, synchronization, recorder)
        with checked_cpu(target, driver.code.amx):
            driver.read(tensors)
            checked = _checked(name, region, tensors) if checks(region) else nullcontext()
            with checked:
                driver.emit(target)
    return builder.get(), driver.code


def _checked(name: str, region: Region, tensors: Sequence[Any]) -> AbstractContextManager[None]:
    """Return what checks the waits of a launch."""
    spec = Shadow(region).spec
    kind = T.handle(spec.dtype).ty
    data = T.Bind(T.tvm_struct_get(tensors[region.num_parameters], 0, _DATA, kind))
    shadow = T.decl_buffer(spec.shape, spec.dtype, data=data, layout=None)
    return WaitCheck(name, shadow).launch()


def _long(size: AnySize) -> Any:
    return size.expr if isinstance(size, Size) else T.int64(size)


def _needs_amx(region: Region) -> bool:
    kernels = [item.kernel for stage in region.stages for item in stage.implementations]
    return any(amx.needed(phase.sources) for kernel in kernels for phase in kernel.phases)


class _Driver:
    arguments: Any  # where the elements of tensors are, once they are read

    def __init__(
        self,
        name: str,
        region: Region,
        parameters: Sequence[TensorSpec],
        kernels: KernelFunctions,
        constants: Constants,
        synchronization: Synchronization,
        recorder: Recorder | None,
    ) -> None:
        self.name, self.region, self.kernels = name, region, kernels
        self.parameters = parameters
        self.workers = region.stages[0].plan.workers
        self.launched = positions(region.stages)
        self.checked = checks(region)
        plan = waits_of(synchronization, self.launched, region, kernels, self.workers)
        self.tables = launch_tables(self.launched, plan, units_of(region))
        if recorder is not None:
            recorder.tables, recorder.plan = self.tables, plan
        self.moved: dict[Place, int] = {}  # places that depend on open sizes
        self._placed: dict[int, tuple[Place, ...]] = {}  # by the id of the implementation
        calls, functions = self._calls()
        data = (constants.symbol, constants.num_bytes) if constants.num_bytes else None
        self.code = LaunchCode(
            name,
            self.tables,
            calls,
            functions,
            parameters,
            data,
            record=recorder is not None,
            amx=_needs_amx(region),
            moved=len(self.moved),
        )

    def _calls(self) -> tuple[list[KernelCall], list[int]]:
        """Return the functions that units call, and which one each unit calls."""
        numbers: dict[KernelCall, int] = {}
        functions = []
        for part in self.tables.parts:
            for index, unit in enumerate(part.units):
                call = self._call(part, index, unit)
                functions.append(numbers.setdefault(call, len(numbers)))
        return list(numbers), functions

    def _call(self, part: Part, index: int, unit: Unit) -> KernelCall:
        implementation = self.launched[part.position].stage.implementations[unit.call]
        symbol = self.kernels.get(implementation.kernel, unit.phase)
        places = self._places(implementation)
        prefetches = implementation.kernel.phases[unit.phase].prefetches
        opened = implementation.kernel.opened
        if not self.checked:
            dimensions = 0 if opened is None else len(opened.variables)
            return KernelCall(symbol, places, prefetches, dimensions)
        return KernelCall(
            symbol,
            places,
            prefetches,
            before=WaitCheck.before(self.name) if index == 0 else (),
            after=WaitCheck.after(self.name) if index == len(part.units) - 1 else (),
            step=part.position * self.workers + part.column,
            shadow=self.region.num_parameters,
        )

    def _places(self, implementation: Implementation[Kernel]) -> tuple[Place, ...]:
        """Return where the tensors of a kernel begin for its code, which all of its units call."""
        key = id(implementation)
        if key not in self._placed:
            _, begins = implementation.kernel.code
            pairs = zip(self.region.places[key], begins, strict=True)
            moved = (replace(p, offset=p.offset + begin) if begin else p for p, begin in pairs)
            self._placed[key] = tuple(map(self._known, moved))
        return self._placed[key]

    def _known(self, place: Place) -> Place:
        """Return a place, as an argument of its own if its offset depends on open sizes."""
        if isinstance(place.offset, int):
            return place
        number = self.moved.setdefault(place, len(self.moved))
        return Place(len(self.parameters) + number)

    def read(self, tensors: Sequence[Any]) -> None:
        """Emit the reading of the arguments: where their elements are."""
        if self.region.opened is not None:
            # What follows is right for others alone.
            check_sizes(self.region.opened, counts_of_region(self.region))
        self.arguments = on_stack([len(tensors) + self._num_open], "int64")
        wrong = self._extern("read", self.arguments.data, *tensors)
        with T.Assert(wrong == 0, expected(self.parameters), "ValueError"):
            pass
        if self.region.opened is not None:
            self._place(self.region.opened)

    @property
    def _num_open(self) -> int:
        """The number of arguments that depend on open sizes, and of these."""
        opened = self.region.opened
        return 0 if opened is None else len(self.moved) + len(opened.variables)

    def _place(self, opened: OpenSizes) -> None:
        """Emit the places that depend on open sizes, and these sizes, as further arguments."""
        first = len(self.parameters)
        for place, number in self.moved.items():
            assert place.parameter is not None, "constants have known places"
            begin = self.arguments[place.parameter] + _long(place.offset)
            T.buffer_store(self.arguments, begin, [first + number])
        for number, variable in enumerate(opened.variables, first + len(self.moved)):
            T.buffer_store(self.arguments, variable, [number])

    def emit(self, target: tvm.target.Target) -> None:
        """Emit the launch."""
        if self.workers == 1:
            error = self._extern("sequence", self.arguments.data)
        else:
            error = self._emit_parallel(target)
        with T.Assert(error == 0, _FAILED):
            pass
        for number, (place, finding) in enumerate(self.region.findings):
            assert place.parameter is not None, "findings lie in the workspace"
            read = partial(self._number, place.parameter, place.offset)
            with T.If(read(0) != 0), T.Then():
                name = f"{self.name}_raise{number}"
                raise_index_error(name, finding.what, read(2), read(3), read(1))

    def _number(self, argument: int, offset: AnySize, index: int) -> Any:
        """Emit the reading of a number of a finding."""
        place = _long(offset) + 8 * index
        return T.call_extern("int64", FINDING, self.arguments.data, argument, place)

    def _emit_parallel(self, target: tvm.target.Target) -> Any:
        """Emit a launch on helpers, or if there are none on TVM's pool; return its error."""
        arguments = self.arguments
        state = on_stack([self.code.state_bytes], "int8")
        result = on_stack([1], "int32")
        launched = self._extern("launch", arguments.data, state.data)
        T.buffer_store(result, launched, [0])
        zero, one = tirx.const(0, "int32"), tirx.const(1, "int32")
        claims = CoreClaims(target)
        with (
            T.If(result[0] < 0),
            T.Then(),
            claims.before_launch(),
            T.attr(zero, "pragma_parallel_launch_point", one),
            T.parallel(self.workers) as worker,
        ):
            claims.at_start(worker)
            T.evaluate(self._extern("work", arguments.data, state.data, worker))
        with T.If(result[0] < 0), T.Then():
            T.buffer_store(result, self._extern("error", state.data), [0])
        return result[0]

    def _extern(self, part: str, *arguments: Any) -> Any:
        return T.call_extern("int32", self.code.function(part), *arguments)
