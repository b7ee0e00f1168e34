# SPDX-License-Identifier: Apache-2.0
"""A scheduled function, stage by stage, whatever kind of device it is for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic

import tvm
import tvm_ffi
from tvm import relax, tirx

from ...graph.operators import Operator
from ...schedule.synchronization import Synchronization
from ...tir.tensor import TensorSpec
from .implementation import Slot
from .stages import S

Stages = Sequence[S | Operator]
"""The stages of a function in order: what its device's lowering makes of a stage, or an operator
that stays as TVM wrote it."""


@dataclass(frozen=True)
class LoweredSchedule(Generic[S]):
    """A schedule as a device's lowering makes code of it.

    Attributes
    ----------
    stages : sequence of stages and operators
    synchronization : Synchronization
        How the workers of a CPU wait for each other.
    slots : mapping of relax.Var to Slot
        Values that are written in place into a concatenation.
    """

    stages: Stages[S]
    synchronization: Synchronization = "barrier"
    slots: Mapping[relax.Var, Slot] = field(default_factory=dict)


@dataclass
class Emitter(ABC, Generic[S]):
    """Writes the bindings of a scheduled function.

    Attributes
    ----------
    builder : relax.BlockBuilder
    values : dict of relax.Var to relax.Expr
        What the original's variables have become.
    """

    builder: relax.BlockBuilder
    values: dict[relax.Var, relax.Expr] = field(default_factory=dict)
    _pending: list[relax.Var] = field(default_factory=list)

    @property
    def pure(self) -> bool:
        """Whether what it emits has no effects."""
        return True

    @abstractmethod
    def begin(self) -> None:
        """Emit what comes before all stages."""

    @abstractmethod
    def call(self, stages: tuple[S, ...], visible: set[relax.Var]) -> None:
        """Emit consecutive stages, of whose values the ``visible`` are read by others."""

    def keep(self, operator: Operator, *, exported: bool) -> None:
        """Emit the operator's bindings as they were."""
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
        """Return ``expr`` in terms of the new variables."""
        lookup = [(relax.Var, lambda variable: self.values.get(variable, variable))]
        return tvm_ffi.structural_map(expr, lookup)

    def _call(
        self,
        name: str,
        arguments: Sequence[relax.Expr],
        written: Sequence[TensorSpec],
        wanted: int,
    ) -> list[relax.Expr]:
        """The first ``wanted`` of the tensors that a function of the library writes."""
        types = [relax.TensorType(spec.shape, spec.dtype) for spec in written]
        several = len(types) > 1
        call = relax.call_dps_packed(name, relax.Tuple(arguments), types if several else types[0])
        result = self.builder.emit(call)
        if not several:
            return [result][:wanted]
        return [self.builder.emit(relax.TupleGetItem(result, i)) for i in range(wanted)]

    def _define(self, variable: relax.Var, value: relax.Expr) -> None:
        self.values[variable] = value
        if not isinstance(variable, relax.DataflowVar):
            self._pending.append(variable)


class Library(ABC, Generic[S]):
    """Compiled code beside the functions, which their emitters fill."""

    @abstractmethod
    def emitter(
        self, name: str, original: relax.Function, lowered: LoweredSchedule[S]
    ) -> Emitter[S]:
        """Return what emits the way ``name`` of a function and fills the library."""

    @abstractmethod
    def compile(self) -> tvm.runtime.Module | None:
        """Compile the code as TVM keeps that of external code generators."""

    def handed_on(self) -> Iterable[tvm.ir.GlobalVar]:
        """Return the library's functions that the emitted functions call."""
        return ()


def emit_functions(
    mod: tvm.IRModule,
    function: str,
    variants: Mapping[str, LoweredSchedule[S]],
    library: Library[S],
) -> tvm.IRModule:
    """Return ``mod`` with ``function`` replaced by one function for each variant of it.

    Parameters
    ----------
    mod : tvm.IRModule
        The prepared module.
    function : str
    variants : mapping of str to LoweredSchedule
        By the name of the function that it becomes, which may be ``function``.
    library : Library
        Filled by its emitters.
    """
    functions = {v: f for v, f in mod.functions.items() if v.name_hint != function}
    for name, lowered in variants.items():
        variable = mod.get_global_var(name) if name == function else tvm.ir.GlobalVar(name)
        emitter = library.emitter(name, mod[function], lowered)
        functions[variable] = _emit_function(emitter, mod[function], lowered.stages, name)
    functions.update((v, relax.ExternFunc(v.name_hint)) for v in library.handed_on())
    functions = _without_unused(functions)
    result = tvm.IRModule(functions, attrs=mod.attrs, global_infos=mod.global_infos)
    code = library.compile()
    if code is None:
        return result
    others = list((mod.attrs or {}).get("external_mods", []))
    return result.with_attr("external_mods", [*others, code])


def _without_unused(
    functions: Mapping[tvm.ir.GlobalVar, tvm.ir.BaseFunc],
) -> dict[tvm.ir.GlobalVar, tvm.ir.BaseFunc]:
    """Return the functions without private TIR functions that kernels have taken the place of."""
    called: list[tvm.ir.GlobalVar] = []
    for function in functions.values():
        if isinstance(function, relax.Function):
            tvm_ffi.structural_walk(function.body, (tvm.ir.GlobalVar, called.append))
    used = set(called)
    return {
        v: f
        for v, f in functions.items()
        if v in used or not isinstance(f, tirx.PrimFunc) or (f.attrs and "global_symbol" in f.attrs)
    }


def _emit_function(
    emitter: Emitter[S], original: relax.Function, stages: Stages[S], name: str
) -> relax.Function:
    """Return ``original`` as a sequence of ``stages``, renamed if it was exported."""
    parameters = [relax.Var(p.name, p.ty) for p in original.params]
    emitter.values.update(zip(original.params, parameters, strict=True))
    builder = emitter.builder
    pure = emitter.pure and bool(original.is_pure)
    with builder.function("__scheduled__", parameters, pure=pure, private=True):
        emitter.begin()
        _emit_blocks(emitter, original, stages)
    attributes = dict(original.attrs or {})
    if "global_symbol" in attributes:
        attributes["global_symbol"] = name
    scheduled = builder.finalize()["__scheduled__"].with_attrs(attributes)
    return relax.Function(scheduled.params, scheduled.body, scheduled.ret_ty, pure, scheduled.attrs)


def _emit_blocks(emitter: Emitter[S], original: relax.Function, stages: Stages[S]) -> None:
    """Regions and pure operators in dataflow blocks, operators with effects between them."""
    builder, result = emitter.builder, original.body.body
    for barrier, parts in _split(stages):
        if barrier:
            for operator in parts:
                assert isinstance(operator, Operator), "only operators have effects"
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


_Part = Operator | tuple[S, ...]


def _split(stages: Stages[S]) -> list[tuple[bool, list[_Part[S]]]]:
    """Runs of operators with effects, and of all else: operators, and as many stages as go."""
    runs: list[tuple[bool, list[_Part[S]]]] = []
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


def _visible(part: tuple[S, ...], stages: Stages[S], result: relax.Expr) -> set[relax.Var]:
    """Return the values that are read outside of ``part``."""
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


def choose_variant(
    variants: tvm.IRModule, names: Iterable[str], chosen: str, variable: tvm.ir.GlobalVar
) -> tvm.IRModule:
    """Return the module of :func:`emit_functions` with one variant alone.

    Parameters
    ----------
    variants : tvm.IRModule
    names : iterable of str
        All variants.
    chosen : str
    variable : tvm.ir.GlobalVar
        What the function is called in the module that the variants were made from.
    """
    dropped = set(names)
    functions = {v: f for v, f in variants.functions.items() if v.name_hint not in dropped}
    function = variants[chosen]
    if function.attrs and "global_symbol" in function.attrs:
        function = function.with_attr("global_symbol", variable.name_hint)
    functions[variable] = function
    return tvm.IRModule(functions, attrs=variants.attrs, global_infos=variants.global_infos)
