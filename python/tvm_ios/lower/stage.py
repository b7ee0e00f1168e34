# SPDX-License-Identifier: Apache-2.0
"""A stage as one TIR function: one parallel launch, the workers' tiles as constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from ..kernels.kernel import Kernel, TensorSpec
from .plan import Share, StagePlan

_OPAQUE = 8  # tvm.relax OpPatternKind.kOpaque: FuseOps must leave the function alone


@dataclass(frozen=True)
class StageCall:
    """One kernel of a stage; ``tensors`` are positions in the stage's list of tensors."""

    kernel: Kernel
    tensors: tuple[int, ...]


def kernel_function(kernel: Kernel, phase: int, name: str) -> tirx.PrimFunc:
    """One phase as a function of its tensors and a range of tiles: ``f(*tensors, begin, end)``."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(name)
        T.func_attr({"tirx.noalias": True})
        buffers = [_parameter(i, spec) for i, spec in enumerate(kernel.tensors)]
        begin, end = (T.arg(n, tirx.Var(n, "int32")) for n in ("begin", "end"))
        with T.sblock("root"):
            T.reads()
            T.writes()
            kernel.phases[phase].emit(buffers, begin, end - begin)
    return builder.get()


def stage_function(
    calls: Sequence[StageCall], tensors: Sequence[TensorSpec], plan: StagePlan
) -> tirx.PrimFunc:
    """The stage as a private function of its tensors, for ``call_tir``.

    Tensors that one call writes and another reads are one parameter, as parameters must not
    alias. All of the stage's intermediates are parameters, so memory planning sees them live for
    the whole stage and never gives two of them the same storage.
    """
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_attr({"tirx.noalias": True, "op_pattern": _OPAQUE})
        buffers = [_parameter(i, spec) for i, spec in enumerate(tensors)]
        with T.sblock("root"):
            T.reads()
            T.writes()
            if plan.workers == 1:
                for level in plan.levels:
                    _emit_shares(calls, buffers, level, None)
            elif len(plan.levels) == 1:
                _emit_level(calls, buffers, plan.levels[0], plan.workers)
            else:
                _emit_region(calls, buffers, plan)
    return builder.get()


def _emit_region(calls: Sequence[StageCall], buffers: Sequence[Any], plan: StagePlan) -> None:
    """Several levels in one launch, with a barrier after each."""
    zero, one = tirx.const(0, "int32"), tirx.const(1, "int32")
    with T.attr(zero, "pragma_parallel_launch_point", one):
        for level in plan.levels:
            with T.attr(zero, "pragma_parallel_barrier_when_finish", one):
                _emit_level(calls, buffers, level, plan.workers)


def _emit_level(
    calls: Sequence[StageCall], buffers: Sequence[Any], level: Sequence[Share], workers: int
) -> None:
    with T.parallel(workers) as worker:
        _emit_shares(calls, buffers, level, worker)


def _emit_shares(
    calls: Sequence[StageCall], buffers: Sequence[Any], level: Sequence[Share], worker: Any
) -> None:
    """The shares of ``worker`` one after another; of the only worker when it is None."""
    for share in level:
        call = calls[share.call]
        with T.sblock(call.kernel.name):
            T.reads()
            T.writes()
            begin, extent = _range_of(worker, share)
            call.kernel.phases[share.phase].emit([buffers[t] for t in call.tensors], begin, extent)


def _range_of(worker: Any, share: Share) -> tuple[Any, Any]:
    """Begin and extent of the tiles of ``worker``; of the only worker when it is None.

    The choice among the constants goes through a variable that TVM's simplifier does not look
    into: as bounds of a loop it would be taken apart at every index inside.
    """
    if worker is None:
        return share.cuts[0], share.cuts[-1] - share.cuts[0]
    bounds = T.alloc_buffer((2,), "int32", scope="local", layout=None)
    T.buffer_store(bounds, _per_worker(worker, share.cuts[:-1]), [0])
    T.buffer_store(bounds, _per_worker(worker, [e - b for b, e in pairwise(share.cuts)]), [1])
    return bounds[0], bounds[1]


def _per_worker(worker: Any, values: Sequence[int]) -> Any:
    """``values[worker]`` as an expression."""
    result = tirx.const(values[-1], "int32")
    for w in range(len(values) - 2, -1, -1):
        if values[w] != values[w + 1] or not isinstance(result, tirx.IntImm):
            result = tirx.Select(worker == w, tirx.const(values[w], "int32"), result)
    return result


def _parameter(index: int, spec: TensorSpec) -> Any:
    return T.arg(f"t{index}", T.buffer(spec.shape, spec.dtype, layout=None))


def build_functions(functions: dict[str, tirx.PrimFunc], target: tvm.target.Target) -> Any:
    """Compile plain TIR functions into one runtime module."""
    return tvm.compile(tvm.IRModule(functions), target=target)
