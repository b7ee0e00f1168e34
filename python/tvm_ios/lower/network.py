# SPDX-License-Identifier: Apache-2.0
"""A scheduled network as a Relax function: one ``call_tir`` a stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

from ..graph.operators import Operator
from ..kernels.kernel import TensorSpec
from ..threads import SHARE_ALL_CORES
from .implement import Implementation
from .plan import StagePlan
from .stage import StageCall, stage_function


@dataclass(frozen=True)
class LoweredStage:
    """A stage that is one kernel: implementations and how their tiles are shared out."""

    implementations: tuple[Implementation, ...]
    plan: StagePlan


def emit_function(
    mod: tvm.IRModule,
    function: str,
    stages: Sequence[LoweredStage | Operator],
    workers: int,
) -> tvm.IRModule:
    """``mod`` with the body of ``function`` replaced by ``stages``.

    Parameters
    ----------
    mod : tvm.IRModule
        The prepared module.
    function : str
    stages : sequence of LoweredStage or Operator
        In order; an operator stays as TVM wrote it.
    workers : int
        Threads that the function asks TVM's pool for.
    """
    original = mod[function]
    result = mod.clone()
    emitter = _Emitter(relax.BlockBuilder(result))
    parameters = [relax.Var(p.name, p.ty) for p in original.params]
    emitter.values.update(zip(original.params, parameters, strict=True))
    gv = result.get_global_var(function)
    builder = emitter.builder
    pure = workers == 1 and bool(original.is_pure)
    with builder.function("__scheduled__", parameters, pure=pure, private=True):
        if workers > 1:
            builder.emit(_use_cores(workers))
        _emit_blocks(emitter, original, stages)
    emitted = builder.finalize()
    scheduled = emitted["__scheduled__"].with_attrs(dict(original.attrs or {}))
    functions = {v: f for v, f in emitted.functions.items() if v.name_hint != "__scheduled__"}
    functions[gv] = relax.Function(
        scheduled.params, scheduled.body, scheduled.ret_ty, pure, scheduled.attrs
    )
    return tvm.IRModule(functions, attrs=mod.attrs, global_infos=mod.global_infos)


def _emit_blocks(
    emitter: _Emitter, original: relax.Function, stages: Sequence[LoweredStage | Operator]
) -> None:
    """Runs of pure stages in dataflow blocks, operators with effects between them."""
    builder = emitter.builder
    runs: list[tuple[bool, list[LoweredStage | Operator]]] = []
    for stage in stages:
        barrier = isinstance(stage, Operator) and stage.barrier
        if not runs or runs[-1][0] != barrier:
            runs.append((barrier, []))
        runs[-1][1].append(stage)
    for barrier, run in runs:
        if barrier:
            for operator in run:
                emitter.keep(operator, exported=True)
            continue
        with builder.dataflow():
            for stage in run:
                if isinstance(stage, Operator):
                    emitter.keep(stage, exported=False)
                else:
                    emitter.call(stage)
            emitter.export()
    builder.emit_func_output(emitter.translate(original.body.body))


@dataclass
class _Emitter:
    builder: relax.BlockBuilder
    values: dict[relax.Var, relax.Expr] = field(default_factory=dict)
    _constants: dict[int, relax.Expr] = field(default_factory=dict)
    _pending: list[relax.Var] = field(default_factory=list)

    def call(self, stage: LoweredStage) -> None:
        """One ``call_tir`` whose results are all that the stage writes."""
        tensors = _StageTensors(stage.implementations)
        function = stage_function(tensors.calls, tensors.specs, stage.plan)
        gv = self.builder.add_func(function, "stage")
        types = [relax.TensorType(spec.shape, spec.dtype) for spec in tensors.written_specs]
        inputs = relax.Tuple([self._input(value) for value in tensors.read])
        several = len(types) > 1
        result = self.builder.emit(relax.call_tir(gv, inputs, types if several else types[0]))
        for i, variable in enumerate(tensors.written):
            if variable is not None:
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

    def _input(self, value: relax.Var | np.ndarray) -> relax.Expr:
        if isinstance(value, relax.Var):
            return self.values[value]
        return self._constants.setdefault(id(value), relax.const(value, str(value.dtype)))


class _StageTensors:
    """A stage's tensors: what it reads, then what it writes (scratch included)."""

    def __init__(self, implementations: Sequence[Implementation]) -> None:
        self.read: list[relax.Var | np.ndarray] = []
        self.written: list[relax.Var | None] = []
        self.written_specs: list[TensorSpec] = []
        self._read_specs: list[TensorSpec] = []
        for implementation in implementations:
            self._write(implementation)
        for implementation in implementations:
            self._read(implementation)
        self.specs = self._read_specs + self.written_specs
        self.calls = self._calls(implementations)

    def _write(self, implementation: Implementation) -> None:
        kernel = implementation.kernel
        self.written += [*implementation.outputs, *(None for _ in kernel.scratch)]
        self.written_specs += kernel.outputs + kernel.scratch

    def _read(self, implementation: Implementation) -> None:
        for value, spec in zip(implementation.inputs, implementation.kernel.inputs, strict=True):
            if _find(self.written, value) is None and _find(self.read, value) is None:
                self.read.append(value)
                self._read_specs.append(spec)

    def _calls(self, implementations: Sequence[Implementation]) -> list[StageCall]:
        calls, first = [], len(self.read)
        for implementation in implementations:
            inputs = [self._position(value) for value in implementation.inputs]
            count = len(implementation.outputs) + len(implementation.kernel.scratch)
            calls.append(StageCall(implementation.kernel, (*inputs, *range(first, first + count))))
            first += count
        return calls

    def _position(self, value: relax.Var | np.ndarray) -> int:
        written = _find(self.written, value)
        if written is not None:
            return len(self.read) + written
        read = _find(self.read, value)
        assert read is not None, "every input of a stage has a position"
        return read


def _find(values: Sequence[object], value: object) -> int | None:
    """The position of ``value`` itself."""
    for i, other in enumerate(values):
        if other is value:
            return i
        if isinstance(other, relax.Var) and isinstance(value, relax.Var) and other.same_as(value):
            return i
    return None


def _use_cores(workers: int) -> relax.Expr:
    """Have TVM's thread pool, which takes half the cores by itself, use ``workers`` threads.

    The call comes before the first parallel launch of a thread, which creates that thread's pool.
    The pool is not bound core by core: it may share the machine with others.
    """
    cores = relax.Tuple([tvm.ir.StringImm(str(i)) for i in range(workers)])
    mode, count = relax.prim_value(SHARE_ALL_CORES), relax.prim_value(workers)
    function = relax.ExternFunc("runtime.config_threadpool")
    return relax.Call(function, [mode, count, cores], None, [relax.TupleType([])])
