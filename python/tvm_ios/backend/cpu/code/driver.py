# SPDX-License-Identifier: Apache-2.0
"""The driver of a region: a function of tensors that runs one launch."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from ....ops.index_check import raise_index_error
from ....ops.size import LARGEST_SIZE, AnySize, OpenSizes, Size, text_of
from ....ops.tensor import TensorSpec
from ....ops.tir_function import on_stack
from ....schedule.synchronization import Synchronization
from ..isa import amx
from .constants import Constants
from .core_claims import CoreClaims
from .cpu_check import checked_cpu
from .functions import KernelFunctions
from .launch_code import FINDING, KernelCall, LaunchCode
from .launch_tables import Part, launch_tables
from .recorder import Recorder
from .region import Place, Region
from .units import Unit, units_of
from .wait_check import WaitCheck, checks
from .waits import positions, waits_of

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
        buffers = [_parameter(i, spec) for i, spec in enumerate(parameters[:read])]
        for variable in region.opened.variables if region.opened else []:
            T.arg(variable.name, variable)
        buffers += [_parameter(read + i, spec) for i, spec in enumerate(parameters[read:])]
        driver = _Driver(
            name, region, len(parameters), kernels, constants, synchronization, recorder
        )
        check = WaitCheck(name, buffers[region.num_parameters]) if checks(region) else None
        with checked_cpu(target, _needs_amx(region)), check.launch() if check else nullcontext():
            driver.emit(buffers, target)
    return builder.get(), driver.code


def _long(size: AnySize) -> Any:
    return size.expr if isinstance(size, Size) else T.int64(size)


def _check_sizes(region: Region) -> None:
    """Emit the refusal of sizes that the code is not right for."""
    assert region.opened is not None, "some size is open"
    for variable, (least, most) in region.opened.bounds.items():
        with T.Assert(variable >= least, f"The size {variable.name} must be at least {least}."):
            pass
        with T.Assert(variable <= most, f"The size {variable.name} must be at most {most}."):
            pass
    for condition in region.opened.conditions:
        with T.Assert(condition, f"The sizes of the inputs must fulfil {text_of(condition)}."):
            pass
    shapes = {
        spec.num_elements: None
        for stage in region.stages
        for implementation in stage.implementations
        for spec in implementation.kernel.tensors
    }
    for count in shapes:
        if isinstance(count, Size):
            with T.Assert(
                count.expr <= LARGEST_SIZE, f"A tensor of {count} elements is too large."
            ):
                pass


def _dimensions(opened: OpenSizes) -> Any:
    """Emit an array of the open dimensions."""
    numbers = on_stack([len(opened.variables)], "int32")
    for place, variable in enumerate(opened.variables):
        T.buffer_store(numbers, T.Cast("int32", variable), [place])
    return numbers


def _parameter(number: int, spec: TensorSpec) -> Any:
    """Declare a tensor; what its open sizes are is not checked here."""
    sizes = [
        tirx.Var(f"d{number}_{axis}", "int64") if isinstance(size, Size) else size
        for axis, size in enumerate(spec.shape)
    ]
    return T.arg(f"t{number}", T.buffer(tuple(sizes), spec.dtype, layout=None))


def _needs_amx(region: Region) -> bool:
    kernels = [item.kernel for stage in region.stages for item in stage.implementations]
    return any(amx.needed(phase.sources) for kernel in kernels for phase in kernel.phases)


class _Driver:
    def __init__(
        self,
        name: str,
        region: Region,
        num_parameters: int,
        kernels: KernelFunctions,
        constants: Constants,
        synchronization: Synchronization,
        recorder: Recorder | None,
    ) -> None:
        self.name, self.region, self.kernels = name, region, kernels
        self.workers = region.stages[0].plan.workers
        self.launched = positions(region.stages)
        self.checked = checks(region)
        plan = waits_of(synchronization, self.launched, region, kernels, self.workers)
        self.tables = launch_tables(self.launched, plan, units_of(region))
        if recorder is not None:
            recorder.tables, recorder.plan = self.tables, plan
        self._num_parameters = num_parameters
        self.moved: dict[Place, int] = {}  # places that depend on open sizes
        calls, functions = self._calls()
        data = (constants.symbol, constants.num_bytes) if constants.num_bytes else None
        pointers = num_parameters + len(self.moved) + bool(region.opened)
        record = None if recorder is None else num_parameters - 1
        self.code = LaunchCode(name, self.tables, calls, functions, pointers, data, record)

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
        places = tuple(map(self._pointer, self.region.places[id(implementation)]))
        prefetches = implementation.kernel.phases[unit.phase].prefetches
        opened = implementation.kernel.opened
        if not self.checked:
            dimensions = 0 if opened is None else len(opened.short)
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

    def _pointer(self, place: Place) -> Place:
        """Return a place as one that is computed when the launch begins, if its offset is open."""
        if isinstance(place.offset, int):
            return place
        number = self.moved.setdefault(place, len(self.moved))
        return Place(self._num_parameters + number)

    def emit(self, buffers: Sequence[Any], target: tvm.target.Target) -> None:
        """Emit the launch."""
        if self.region.opened is not None:
            _check_sizes(self.region)
        pointers = [buffer.data for buffer in buffers]
        for place in self.moved:
            assert place.parameter is not None, "constants have known places"
            pointers.append(T.address_of(buffers[place.parameter][_long(place.offset)]))
        if self.region.opened is not None:
            pointers.append(_dimensions(self.region.opened).data)
        arguments = on_stack([len(pointers)], "int64")
        if self.workers == 1:
            error = self._extern("sequence", arguments.data, *pointers)
        else:
            error = self._emit_parallel(arguments, pointers, target)
        with T.Assert(error == 0, _FAILED):
            pass
        for number, (place, finding) in enumerate(self.region.findings):
            assert place.parameter is not None, "findings lie in the workspace"
            read = partial(self._number, pointers[place.parameter], place.offset)
            with T.If(read(0) != 0), T.Then():
                name = f"{self.name}_raise{number}"
                raise_index_error(name, finding.what, read(2), read(3), read(1))

    def _number(self, pointer: Any, offset: AnySize, index: int) -> Any:
        """Emit the reading of a number of a finding."""
        return T.call_extern("int64", FINDING, pointer, _long(offset) + 8 * index)

    def _emit_parallel(
        self, arguments: Any, pointers: Sequence[Any], target: tvm.target.Target
    ) -> Any:
        """Emit a launch on helpers, or if there are none on TVM's pool; return its error."""
        state = on_stack([self.code.state_bytes], "int8")
        result = on_stack([1], "int32")
        launched = self._extern("launch", arguments.data, state.data, *pointers)
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
