# SPDX-License-Identifier: Apache-2.0
"""Kernels from TVM's own lowering, for operators that have no rule here.

TVM's legalisation gives a TIR function with one loop nest per step. Injective steps are inlined;
each nest that remains becomes a phase whose tiles are the iterations of its outer data-parallel
loops, so that such an operator, too, is shared out among the workers.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, sym, tirx
from tvm.tirx.script import builder as T

from ....tir.tensor import TensorSpec
from .kernel import Emit, Kernel, Phase

_INNER = 64  # elements of a one-dimensional nest that stay in one tile, for LLVM to vectorise
_CONDITION = tvm.ir.Op.get("prim.if_then_else")
_MIN_LANES, _MAX_LANES = 4, 32  # of a reduction's vectors; LLVM divides those that are too wide


def generic_kernel(name: str, func: tirx.PrimFunc, num_inputs: int) -> Kernel:
    """The kernel of a legalised TIR function.

    Parameters
    ----------
    name : str
    func : tvm.tirx.PrimFunc
        A schedulable function with static shapes; its parameters are inputs, then outputs.
    num_inputs : int

    Raises
    ------
    tvm.error.InternalError
        When TVM cannot narrow its indices.
    """
    narrow = _narrowed(func)
    key = ("generic", tvm_ffi.StructuralKey(narrow))
    return _kernel_of_nests(name, key, _schedule(narrow), num_inputs)


def scheduled_kernel(name: str, func: tirx.PrimFunc, num_inputs: int) -> Kernel:
    """The kernel of a TIR function that was scheduled already, as by MetaSchedule.

    What is used in one nest only is allocated there: every worker has its own.
    """
    passes = [
        s_tir.transform.LowerInitBlock(),
        s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
    ]
    placed = tvm.transform.Sequential(passes)(_module(_narrowed(func)))
    key = ("scheduled", tvm_ffi.StructuralKey(placed["main"]))
    return _kernel_of_nests(name, key, placed["main"], num_inputs)


def _module(func: tirx.PrimFunc) -> tvm.IRModule:
    return tvm.IRModule({"main": func})


def _narrowed(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with 32-bit indices.

    Of blocks inside of blocks, as of a pooling whose windows differ in size, TVM narrows some
    axes but not others. Renewing the definitions fails there: sooner than its use would.
    """
    narrow = tirx.transform.ForceNarrowIndexToInt32()(_module(func))["main"]
    return s_tir.renew_defs(narrow)


def _kernel_of_nests(name: str, key: Hashable, func: tirx.PrimFunc, num_inputs: int) -> Kernel:
    """A phase for every loop nest of a function."""
    root = func.body.block
    buffers = [*func.params, *root.alloc_buffers]
    specs = [_spec(buffer) for buffer in buffers]
    nests = list(root.body.seq) if isinstance(root.body, tirx.SeqStmt) else [root.body]
    outputs = len(func.params)
    return Kernel(
        name=name,
        key=key,
        inputs=tuple(specs[:num_inputs]),
        outputs=tuple(specs[num_inputs:outputs]),
        scratch=tuple(specs[outputs:]),
        phases=tuple(_phase(nest, buffers) for nest in nests),
    )


def _spec(buffer: Any) -> TensorSpec:
    return TensorSpec(tuple(int(d) for d in buffer.shape), str(buffer.dtype))


def _phase(nest: tirx.Stmt, buffers: Sequence[Any]) -> Phase:
    """A loop nest as a phase; the tiles are its outermost loop's, where that one is parallel."""
    tiled = isinstance(nest, tirx.For) and nest.kind == tirx.ForKind.PARALLEL
    return Phase(int(nest.extent) if tiled else 1, _emitter(nest, buffers, tiled))


def _emitter(nest: tirx.Stmt, buffers: Sequence[Any], tiled: bool) -> Emit:
    def emit(actual: Sequence[Any], begin: Any, extent: Any) -> None:
        fresh = _instantiate(nest, buffers, actual)
        variable, body, annotations = tirx.Var("once", "int32"), fresh, {}
        if tiled:
            variable, body, annotations = fresh.loop_var, fresh.body, fresh.annotations
        serial = tirx.ForKind.SERIAL
        with T.sblock("nest"):
            T.reads()
            T.writes()
            T.add_to_parent(
                tirx.For(variable, begin, extent, serial, body, annotations=annotations)
            )

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

    rewrites = [(tvm.ir.Var, replace), (tirx.For, _serial)]
    return tvm_ffi.structural_map(renewed.body.block.body, rewrites)


def _serial(loop: tirx.For) -> tirx.For:
    """A loop that is not parallel: it runs on one of the workers, who launch nothing."""
    if loop.kind != tirx.ForKind.PARALLEL:
        return loop
    serial, annotations = tirx.ForKind.SERIAL, loop.annotations
    return tirx.For(
        loop.loop_var, loop.min, loop.extent, serial, loop.body, annotations=annotations
    )


def _schedule(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Inline what is injective, vectorise reductions, and make each nest's outer loop parallel."""
    sch = s_tir.Schedule(func)
    for block in sch.get_child_blocks(sch.get_sblock("root")):
        if _branches(sch, block) and any(_reduces(sch, c) for c in sch.get_consumers(block)):
            continue  # a condition, as of padding, would keep the reduction from being vectorised
        try:
            sch.compute_inline(block)
        except s_tir.ScheduleError:
            continue  # an output or a reduction: it keeps its own nest
    for block in sch.get_child_blocks(sch.get_sblock("root")):
        _tile_nest(sch, block)
    return sch.mod["main"]


def _tile_nest(sch: s_tir.Schedule, block: Any) -> None:
    """Make the outer data-parallel loops of a block one parallel loop, the loop over its tiles."""
    loops = sch.get_loops(block)
    parallel = _leading_parallel(sch, loops)
    if not parallel:
        return
    reduction = loops[len(parallel) :]
    width = _vector_width(sch, block, parallel[-1]) if reduction else 1
    if width > 1:
        parallel[-1], inner = sch.split(parallel[-1], [None, width])
        sch.reorder(*reduction, inner)
        sch.vectorize(inner)
    elif len(parallel) > 1 and not reduction:
        parallel = parallel[:-1]  # the innermost loop is LLVM's to vectorise
    outer = sch.fuse(*parallel) if len(parallel) > 1 else parallel[0]
    if len(loops) == 1 and int(sch.get(outer).extent) > _INNER:
        outer, _ = sch.split(outer, [None, _INNER])
    sch.parallel(outer)
    if width > 1:
        initial = sch.decompose_reduction(block, reduction[0])
        sch.vectorize(sch.get_loops(initial)[-1])


def _vector_width(sch: s_tir.Schedule, block: Any, loop: Any) -> int:
    """How many neighbours along ``loop`` a reduction computes at once; 1 where they are none.

    LLVM may not change the order of a sum, and would compute it number by number.
    """
    extent = int(sch.get(loop).extent)
    width = max(w for w in range(1, _MAX_LANES + 1) if extent % w == 0)
    return width if width >= _MIN_LANES and _contiguous(sch, block, loop) else 1


def _contiguous(sch: s_tir.Schedule, block: Any, loop: Any) -> bool:
    """Whether ``loop`` runs along the last axis of all tensors of the block that it runs along."""
    realize, variable = sch.get(sch.get_loops(block)[-1]).body, sch.get(loop).loop_var
    pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    (axis,) = (axis.var for axis, value in pairs if variable.same_as(value))
    indices: list[Sequence[Any]] = []
    kinds = (tirx.BufferStore, tvm.ir.TensorLoad)
    tvm_ffi.structural_walk(realize.block.body, (kinds, lambda node: indices.append(node.indices)))
    return all(_step(index, axis) == 0 for *outer, _last in indices for index in outer)


def _step(index: Any, axis: Any) -> int | None:
    """By how much ``index`` rises with ``axis``; None where it is not the same everywhere."""
    parts = sym.detect_linear_equation(index, [axis])
    return int(parts[0]) if len(parts) > 0 and isinstance(parts[0], tirx.IntImm) else None


def _reduces(sch: s_tir.Schedule, block: Any) -> bool:
    return any(axis.iter_type == tirx.IterVar.CommReduce for axis in sch.get(block).iter_vars)


def _branches(sch: s_tir.Schedule, block: Any) -> bool:
    """Whether what a block computes depends on a condition."""
    calls: list[tvm.ir.Call] = []
    tvm_ffi.structural_walk(sch.get(block).body, (tvm.ir.Call, calls.append))
    return any(call.op.same_as(_CONDITION) for call in calls)


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
