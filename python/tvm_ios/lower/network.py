# SPDX-License-Identifier: Apache-2.0
"""A scheduled network as a Relax function: one call a region.

The kernels and drivers of all regions are one compiled module beside the function, as TVM keeps
the code of other code generators (``external_mods``): equal kernels are compiled once, and TVM's
pipeline compiles what is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import tvm
import tvm_ffi
from tvm import relax, tirx

from ..graph.operators import Operator
from ..graph.recognise import static_shape
from ..kernels.kernel import TensorSpec
from ..threads import SHARE_ALL_CORES
from .constants import Constants
from .driver import driver_function
from .functions import KernelFunctions, build_functions
from .implement import Slot
from .region import LoweredStage, Region, form_region

Stages = Sequence[LoweredStage | Operator]
"""The stages of a function in order; an operator stays as TVM wrote it."""


def emit_ways(
    mod: tvm.IRModule,
    function: str,
    ways: Mapping[str, Stages],
    slots: Mapping[relax.Var, Slot],
    workers: int,
    target: tvm.target.Target,
) -> tvm.IRModule:
    """``mod`` with ``function`` replaced by one function for each way to run it.

    Parameters
    ----------
    mod : tvm.IRModule
        The prepared module.
    function : str
    ways : mapping of str to Stages
        By the name of the function that it becomes, which may be ``function``.
    slots : mapping of relax.Var to Slot
        Values that are written in place into a concatenation.
    workers : int
        Threads that the function asks TVM's pool for.
    target : tvm.target.Target
        What the kernels are compiled for.
    """
    original = mod[function]
    lowered = [s for stages in ways.values() for s in stages if not isinstance(s, Operator)]
    library = _Library(target, Constants.of(lowered))
    functions = {v: f for v, f in mod.functions.items() if v.name_hint != function}
    for name, stages in ways.items():
        emitter = _Emitter(relax.BlockBuilder(), library, slots, f"tvm_ios_{name}")
        variable = mod.get_global_var(name) if name == function else tvm.ir.GlobalVar(name)
        functions[variable] = _emit_function(emitter, original, stages, workers, name)
    result = tvm.IRModule(functions, attrs=mod.attrs, global_infos=mod.global_infos)
    if not library.drivers:
        return result
    others = list((mod.attrs or {}).get("external_mods", []))
    return result.with_attr("external_mods", [*others, library.compile()])


def choose_way(
    ways: tvm.IRModule, names: Iterable[str], chosen: str, variable: tvm.ir.GlobalVar
) -> tvm.IRModule:
    """The module of :func:`emit_ways` with only the way ``chosen``, as function ``variable``.

    Parameters
    ----------
    ways : tvm.IRModule
    names : iterable of str
        All ways.
    chosen : str
    variable : tvm.ir.GlobalVar
        What the function is called in the module that the ways were made from.
    """
    dropped = set(names)
    functions = {v: f for v, f in ways.functions.items() if v.name_hint not in dropped}
    function = ways[chosen]
    if function.attrs and "global_symbol" in function.attrs:
        function = function.with_attr("global_symbol", variable.name_hint)
    functions[variable] = function
    return tvm.IRModule(functions, attrs=ways.attrs, global_infos=ways.global_infos)


@dataclass
class _Library:
    """Drivers and kernels of all regions, and their constants."""

    target: tvm.target.Target
    constants: Constants
    kernels: KernelFunctions = field(default_factory=KernelFunctions)
    drivers: dict[str, tirx.PrimFunc] = field(default_factory=dict)

    def add(self, name: str, region: Region, parameters: Sequence[TensorSpec]) -> None:
        self.drivers[name] = driver_function(
            name, region, parameters, self.kernels, self.constants, self.target
        )

    def compile(self) -> tvm.runtime.Module:
        return build_functions({**self.kernels.functions, **self.drivers}, self.target).mod


def _emit_function(
    emitter: _Emitter, original: relax.Function, stages: Stages, workers: int, name: str
) -> relax.Function:
    parameters = [relax.Var(p.name, p.ty) for p in original.params]
    emitter.values.update(zip(original.params, parameters, strict=True))
    builder = emitter.builder
    pure = workers == 1 and bool(original.is_pure)
    with builder.function("__scheduled__", parameters, pure=pure, private=True):
        if workers > 1:
            builder.emit(_use_cores(workers))
        _emit_blocks(emitter, original, stages)
    attributes = dict(original.attrs or {})
    if "global_symbol" in attributes:
        attributes["global_symbol"] = name
    scheduled = builder.finalize()["__scheduled__"].with_attrs(attributes)
    return relax.Function(scheduled.params, scheduled.body, scheduled.ret_ty, pure, scheduled.attrs)


def _emit_blocks(emitter: _Emitter, original: relax.Function, stages: Stages) -> None:
    """Regions and pure operators in dataflow blocks, operators with effects between them."""
    builder, result = emitter.builder, original.body.body
    for barrier, parts in _split(stages):
        if barrier:
            for operator in parts:
                emitter.keep(operator, exported=True)
            continue
        with builder.dataflow():
            for part in parts:
                if isinstance(part, Operator):
                    emitter.keep(part, exported=False)
                else:
                    emitter.call(part, _visible(part, stages, result))
            emitter.export()
    builder.emit_func_output(emitter.translate(result))


_Part = Operator | tuple[LoweredStage, ...]


def _split(stages: Stages) -> list[tuple[bool, list[_Part]]]:
    """Runs of operators with effects, and of all else: operators, and as many stages as go."""
    runs: list[tuple[bool, list[_Part]]] = []
    for stage in stages:
        barrier = isinstance(stage, Operator) and stage.barrier
        if not runs or runs[-1][0] != barrier:
            runs.append((barrier, []))
        parts = runs[-1][1]
        if isinstance(stage, Operator):
            parts.append(stage)
        elif parts and not isinstance(parts[-1], Operator):
            parts[-1] += (stage,)
        else:
            parts.append((stage,))
    return runs


def _visible(part: tuple[LoweredStage, ...], stages: Stages, result: relax.Expr) -> set[relax.Var]:
    """The values that are read outside of ``part``."""
    read = set(relax.analysis.free_vars(result))
    for stage in stages:
        if isinstance(stage, Operator):
            read.update(stage.inputs)
        elif not any(stage is member for member in part):
            read.update(
                value
                for implementation in stage.implementations
                for value in implementation.inputs
                if isinstance(value, relax.Var)
            )
    return read


@dataclass
class _Emitter:
    builder: relax.BlockBuilder
    library: _Library
    slots: Mapping[relax.Var, Slot]
    prefix: str
    values: dict[relax.Var, relax.Expr] = field(default_factory=dict)
    _pending: list[relax.Var] = field(default_factory=list)
    _regions: int = 0

    def call(self, stages: tuple[LoweredStage, ...], visible: set[relax.Var]) -> None:
        """One call of a region's driver, whose results are the region's and its workspace."""
        region = form_region(stages, visible, self.slots, self.library.constants.offsets)
        inputs = [self.values[value] for value in region.inputs]
        written = list(region.output_specs)
        if region.workspace_bytes:
            written.append(TensorSpec((region.workspace_bytes,), "uint8"))
        name = f"{self.prefix}_region{self._regions}"
        self._regions += 1
        self.library.add(name, region, [*map(_spec_of, inputs), *written])
        types = [relax.TensorType(spec.shape, spec.dtype) for spec in written]
        several = len(types) > 1
        call = relax.call_dps_packed(name, relax.Tuple(inputs), types if several else types[0])
        result = self.builder.emit(call)
        for i, variable in enumerate(region.outputs):
            item = self.builder.emit(relax.TupleGetItem(result, i)) if several else result
            self._define(variable, item)

    def keep(self, operator: Operator, *, exported: bool) -> None:
        """The operator's bindings as they were."""
        for binding in operator.bindings:
            value = self.translate(binding.value)
            if isinstance(binding, relax.MatchCast):
                new = self.builder.match_cast(value, binding.ty)
            else:
                new = self.builder.emit(value)
            if exported:
                self.values[binding.var] = new
            else:
                self._define(binding.var, new)

    def export(self) -> None:
        """Make what the dataflow block computed visible after it."""
        for variable in self._pending:
            self.values[variable] = self.builder.emit_output(self.values[variable])
        self._pending.clear()

    def translate(self, expr: relax.Expr) -> relax.Expr:
        """``expr`` in terms of the new variables."""
        lookup = [(relax.Var, lambda variable: self.values.get(variable, variable))]
        return tvm_ffi.structural_map(expr, lookup)

    def _define(self, variable: relax.Var, value: relax.Expr) -> None:
        self.values[variable] = value
        if not isinstance(variable, relax.DataflowVar):
            self._pending.append(variable)


def _spec_of(expr: relax.Expr) -> TensorSpec:
    """The tensor that an input of a region is at run time."""
    return TensorSpec(static_shape(expr, "an input"), str(expr.ty.dtype))


def _use_cores(workers: int) -> relax.Expr:
    """Have TVM's thread pool, which takes half the cores by itself, use ``workers`` threads.

    The call comes before the first parallel launch of a thread, which creates that thread's pool.
    The pool is not bound core by core: it may share the machine with others. Which cores the
    process may use is not known when this is compiled, and TVM has no way to name them at run
    time: where these are not all, nothing is to be bound (``TVM_BIND_THREADS=0``), and tvm_ios
    and tvm_ios_runtime see to that.
    """
    cores = relax.Tuple([tvm.ir.StringImm(str(i)) for i in range(workers)])
    mode, count = relax.prim_value(SHARE_ALL_CORES), relax.prim_value(workers)
    function = relax.ExternFunc("runtime.config_threadpool")
    return relax.Call(function, [mode, count, cores], None, [relax.TupleType([])])
