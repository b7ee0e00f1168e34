# SPDX-License-Identifier: Apache-2.0
"""Kernels from TVM's own lowering, for operators that have no rule here.

TVM's legalisation gives a TIR function with one loop nest per step. Injective steps are inlined;
each nest that remains becomes a phase whose tiles are the iterations of its outer data-parallel
loops, so that such an operator, too, is shared out among the workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.tirx.script import builder as T

from .kernel import Emit, Kernel, Phase, TensorSpec

_INNER = 64  # elements of a one-dimensional nest that stay in one tile, for LLVM to vectorise


def generic_kernel(name: str, func: tirx.PrimFunc, num_inputs: int) -> Kernel:
    """The kernel of a legalised TIR function.

    Parameters
    ----------
    name : str
    func : tvm.tirx.PrimFunc
        A schedulable function with static shapes; its parameters are inputs, then outputs.
    num_inputs : int
    """
    narrow = tirx.transform.ForceNarrowIndexToInt32()(tvm.IRModule({"main": func}))["main"]
    scheduled = _schedule(narrow)
    root = scheduled.body.block
    buffers = [*scheduled.params, *root.alloc_buffers]
    specs = [_spec(buffer) for buffer in buffers]
    body = root.body
    nests = list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]
    outputs = len(scheduled.params)
    return Kernel(
        name=name,
        key=("generic", tvm_ffi.StructuralKey(narrow)),
        inputs=tuple(specs[:num_inputs]),
        outputs=tuple(specs[num_inputs:outputs]),
        scratch=tuple(specs[outputs:]),
        phases=tuple(_phase(nest, buffers) for nest in nests),
    )


def _spec(buffer: Any) -> TensorSpec:
    return TensorSpec(tuple(int(d) for d in buffer.shape), str(buffer.dtype))


def _phase(nest: tirx.Stmt, buffers: Sequence[Any]) -> Phase:
    """A loop nest as a phase; its outermost loop runs over the tiles."""
    tiled = isinstance(nest, tirx.For) and nest.annotations.get("tvm_ios.tiles") is not None
    return Phase(int(nest.extent) if tiled else 1, _emitter(nest, buffers, tiled))


def _emitter(nest: tirx.Stmt, buffers: Sequence[Any], tiled: bool) -> Emit:
    def emit(actual: Sequence[Any], begin: Any, extent: Any) -> None:
        fresh = _instantiate(nest, buffers, actual)
        with T.sblock("nest"):
            T.reads()
            T.writes()
            if tiled:
                loop = tirx.For(fresh.loop_var, begin, extent, tirx.ForKind.SERIAL, fresh.body)
            else:
                once = tirx.Var("once", "int32")
                loop = tirx.For(once, begin, extent, tirx.ForKind.SERIAL, fresh)
            T.add_to_parent(loop)

    return emit


def _instantiate(nest: tirx.Stmt, buffers: Sequence[Any], actual: Sequence[Any]) -> tirx.Stmt:
    """A copy of ``nest`` with variables of its own that works on ``actual``."""
    root = s_tir.SBlockRealize([], True, s_tir.SBlock([], [], [], "root", nest))
    renewed = s_tir.renew_defs(tirx.PrimFunc(list(buffers), root))

    def replace(var: Any) -> Any:
        for old, new in zip(renewed.params, actual, strict=True):
            if var.same_as(old):
                return new
        return var

    return tvm_ffi.structural_map(renewed.body.block.body, [(tvm.ir.Var, replace)])


def _schedule(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Inline what is injective and mark the outer loop of every nest that has independent tiles."""
    sch = s_tir.Schedule(func)
    for block in sch.get_child_blocks(sch.get_sblock("root")):
        try:
            sch.compute_inline(block)
        except s_tir.ScheduleError:
            continue  # an output or a reduction: it keeps its own nest
    for block in sch.get_child_blocks(sch.get_sblock("root")):
        _mark_tiles(sch, block)
    return sch.mod["main"]


def _mark_tiles(sch: s_tir.Schedule, block: Any) -> None:
    loops = sch.get_loops(block)
    parallel = _leading_parallel(sch, loops)
    if not parallel:
        return
    if len(parallel) > 1 and len(parallel) == len(loops):
        parallel = parallel[:-1]  # the innermost loop is LLVM's to vectorise
    outer = sch.fuse(*parallel) if len(parallel) > 1 else parallel[0]
    if len(loops) == 1 and int(sch.get(outer).extent) > _INNER:
        outer, _ = sch.split(outer, [None, _INNER])
    sch.annotate(outer, "tvm_ios.tiles", 1)


def _leading_parallel(sch: s_tir.Schedule, loops: Sequence[Any]) -> list[Any]:
    """The outermost loops that each drive one data-parallel axis of the block inside."""
    realize = sch.get(loops[-1]).body if loops else None
    if not isinstance(realize, s_tir.SBlockRealize):
        return []
    parallel = [
        value
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        if axis.iter_type == tirx.IterVar.DataPar
    ]
    result = []
    for loop in loops:
        variable = sch.get(loop).loop_var
        if not any(variable.same_as(value) for value in parallel):
            break
        result.append(loop)
    return result
