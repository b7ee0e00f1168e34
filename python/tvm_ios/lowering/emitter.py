# SPDX-License-Identifier: Apache-2.0
"""A scheduled function, stage by stage, whatever kind of device it is for."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic

import tvm
import tvm_ffi
from tvm import relax, tirx

from ..graph.operators import Operator
from ..ops.tensor import TensorSpec
from ..relax_ir.building import building
from ..schedule.synchronization import Synchronization
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
    layouts : mapping of relax.Var to Hashable
        Layouts of values that kernels of a GPU have in another one than Relax's.
    """

    stages: Stages[S]
    synchronization: Synchronization = "barrier"
    slots: Mapping[relax.Var, Slot] = field(default_factory=dict)
    layouts: Mapping[relax.Var, Hashable] = field(default_factory=dict)


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
    def call(self, stages: tuple[S, ...], visible: Container[relax.Var]) -> None:
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

    def returned(self, result: relax.Expr) -> relax.Expr:
        """Return what the function returns, whose original returned ``result``."""
        return self.translate(result)

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
        wanted: Iterable[int],
    ) -> list[relax.Expr]:
        """Emit a call of a function of the library, and return some of the tensors it writes."""
        types = [relax.TensorType(spec.shape, spec.dtype) for spec in written]
        several = len(types) > 1
        call = relax.call_dps_packed(name, relax.Tuple(arguments), types if several else types[0])
        result = self.builder.emit(call)
        if not several:
            return [result for _ in wanted]
        return [self.builder.emit(relax.TupleGetItem(result, i)) for i in wanted]

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


@dataclass(frozen=True)
class Network(Generic[S]):
    """A function that is to be emitted.

    Attributes
    ----------
    module : tvm.IRModule
        The prepared module.
    function : str
        The name of the function in the module.
    variants : mapping of str to LoweredSchedule
        By the name of the function that it becomes, which may be ``function``.
    parts : sequence of Network
        Other functions of the module, which are called when branches and loops are run. Each has a
        module and a variant of its own.
    """

    module: tvm.IRModule
    function: str
    variants: Mapping[str, LoweredSchedule[S]]
    parts: Sequence[Network[S]] = ()


def emit_networks(networks: Sequence[Network[S]], library: Library[S]) -> tvm.IRModule:
    """Return one module with a function for each variant of each network.

    Parameters
    ----------
    networks : sequence of Network
        Their variants have different names. Private functions of their modules are renamed where
        several networks have one of the same name.
    library : Library
        Filled by its emitters.
    """
    functions: dict[tvm.ir.GlobalVar, tvm.ir.BaseFunc] = {}
    for network in networks:
        functions |= _renamed(_emit_network(network, library), functions)
    functions |= {v: relax.ExternFunc(v.name_hint) for v in library.handed_on()}
    first = networks[0].module
    result = tvm.IRModule(functions, attrs=first.attrs, global_infos=first.global_infos)
    modules = [m for n in networks for m in (n.module.attrs or {}).get("external_mods", [])]
    code = library.compile()
    modules += [] if code is None else [code]
    return result.with_attr("external_mods", modules) if modules else result


def _emit_network(
    network: Network[S], library: Library[S]
) -> dict[tvm.ir.GlobalVar, tvm.ir.BaseFunc]:
    """Return the functions of the network's module, with the variants instead of the network."""
    mod, function = network.module, network.function
    emitted = {function, *(part.function for part in network.parts)}
    functions = {v: f for v, f in mod.functions.items() if v.name_hint not in emitted}
    for name, lowered in network.variants.items():
        variable = mod.get_global_var(name) if name == function else tvm.ir.GlobalVar(name)
        emitter = library.emitter(name, mod[function], lowered)
        functions[variable] = _emit_function(emitter, mod[function], lowered.stages, name)
    for part in network.parts:
        inside = _emit_network(part, library).items()
        own = {v: f if _is_tir(f) else f.without_attr("global_symbol")
               for v, f in inside if v.name_hint == part.function or _is_tir(f)}  # fmt: skip
        functions |= _renamed(own, functions)
    return _without_unused(_called_by_name(functions) if network.parts else functions)


def _is_tir(function: tvm.ir.BaseFunc) -> bool:
    return isinstance(function, tirx.PrimFunc)


def _called_by_name(
    functions: Mapping[tvm.ir.GlobalVar, tvm.ir.BaseFunc],
) -> dict[tvm.ir.GlobalVar, tvm.ir.BaseFunc]:
    """Let calls of a function of another module, which has the name of one of these, be of this."""
    named = {variable.name_hint: variable for variable in functions}
    lookup = [(tvm.ir.GlobalVar, lambda variable: named.get(variable.name_hint, variable))]
    return {
        v: tvm_ffi.structural_map(f, lookup) if isinstance(f, relax.Function) else f
        for v, f in functions.items()
    }


def _renamed(
    functions: Mapping[tvm.ir.GlobalVar, tvm.ir.BaseFunc], taken: Iterable[tvm.ir.GlobalVar]
) -> dict[tvm.ir.GlobalVar, tvm.ir.BaseFunc]:
    """Return functions under names that no function of ``taken`` has."""
    names = {variable.name_hint for variable in taken}
    new = {v: v for v in functions}
    for variable in functions:
        candidates = (f"{variable.name_hint}_{number}" for number in itertools.count(1))
        if variable.name_hint in names:
            new[variable] = tvm.ir.GlobalVar(next(n for n in candidates if n not in names))
            relax.expr._update_type(new[variable], variable.ty)
        names.add(new[variable].name_hint)
    if all(variable is renamed for variable, renamed in new.items()):
        return dict(functions)
    lookup = [(tvm.ir.GlobalVar, lambda variable: new.get(variable, variable))]
    return {
        new[v]: _exported_as(new[v].name_hint, tvm_ffi.structural_map(f, lookup))
        for v, f in functions.items()
    }


def _exported_as(name: str, function: tvm.ir.BaseFunc) -> tvm.ir.BaseFunc:
    """Return a function that is exported under ``name`` if it is exported at all."""
    exported = function.attrs and "global_symbol" in function.attrs
    return function.with_attr("global_symbol", name) if exported else function


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
    opened = builder.function("__scheduled__", parameters, pure=pure, private=True)
    with building(), opened:
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
    readings = Counter(relax.analysis.free_vars(result))
    readings.update(value for stage in stages for value in _read(stage))
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
                    own = Counter(value for stage in part for value in _read(stage))
                    emitter.call(part, _Visible(readings, own))
            emitter.export()
    builder.emit_func_output(emitter.returned(result))


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


@dataclass(frozen=True)
class _Visible(Container[relax.Var]):
    """The values that are read outside of consecutive stages.

    Attributes
    ----------
    readings : Counter
        How often each value is read by the whole function.
    own : Counter
        How often each value is read by the stages.
    """

    readings: Counter[relax.Var]
    own: Counter[relax.Var]

    def __contains__(self, value: object) -> bool:
        return self.readings[value] > self.own[value]


def _read(stage: S | Operator) -> Iterator[relax.Var]:
    """Yield the variables that a stage or an operator reads, as often as it does."""
    if isinstance(stage, Operator):
        yield from stage.inputs
        return
    for implementation in stage.implementations:
        for value in implementation.inputs:
            if isinstance(value, relax.Var):
                yield value


def choose_variant(
    variants: tvm.IRModule, names: Iterable[str], chosen: str, variable: tvm.ir.GlobalVar
) -> tvm.IRModule:
    """Return the module of :func:`emit_networks` with one variant of a network alone.

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
