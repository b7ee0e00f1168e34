# SPDX-License-Identifier: Apache-2.0
"""Kernels from TVM's default lowering, for operators without a rule of their own.

TVM's legalisation yields a TIR function with one loop nest per step. Injective steps are inlined.
Each remaining nest becomes a phase whose tiles are the iterations of its outer data-parallel loops,
so that the workers share these operators, too.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, sym, tirx
from tvm.tirx.script import builder as T

from ....lowering.no_rule import NoRule
from ....ops.tensor import TensorSpec
from ....sizes.arithmetic import evaluated
from ....sizes.size import AnyShape, AnySize, Size, is_open
from ..isa.near_zero import accurate_near_zero
from .kernel import Emit, Kernel, Phase, phase

_INNER = 64  # elements of a one-dimensional nest in one tile, for LLVM to vectorise
_CONDITION = tvm.ir.Op.get("prim.if_then_else")
_MIN_LANES, _MAX_LANES = 4, 32  # of a reduction's vectors; LLVM splits vectors that are too wide
_MOST_READS = 256  # of tensors in one expression, up to which blocks are inlined


def generic_kernel(
    name: str,
    func: tirx.PrimFunc,
    num_inputs: int,
    shapes: Sequence[AnyShape] = (),
    sizes: Sequence[AnySize] = (),
) -> Kernel:
    """Return the kernel of a legalised TIR function.

    Parameters
    ----------
    name : str
        Display name of the kernel.
    func : tvm.tirx.PrimFunc
        A schedulable function. Its parameters are inputs, open sizes, then outputs.
    num_inputs : int
        How many parameters are inputs.
    shapes : sequence of tuples of sizes
        Of the inputs and outputs, if any is open.
    sizes : sequence of sizes
        What the parameters are that are no tensors.

    Returns
    -------
    Kernel
        A kernel with one phase per loop nest.

    Raises
    ------
    tvm.error.InternalError
        If TVM cannot narrow the function's indices.
    NoRule
        If it is not known what a size is.
    """
    narrow = accurate_near_zero(_narrowed(func))
    scheduled = _schedule(narrow)
    tensors = [p for p in scheduled.params if _is_tensor(p)]
    numbers = [p for p in scheduled.params if not _is_tensor(p)]
    known = dict(zip(numbers, sizes, strict=True))
    for tensor, shape in zip(tensors, shapes, strict=False):
        if is_open(shape):
            pairs = zip(tensor.shape, shape, strict=True)
            known |= {d: n for d, n in pairs if isinstance(d, tirx.Var)}
    if any(
        v not in known for t in tensors for n in t.shape for v in tirx.analysis.undefined_vars(n)
    ):
        raise NoRule  # a size that is proven to be a number is written with variables in the code
    key = ("generic", tvm_ffi.StructuralKey(narrow), tuple(known.values()))
    return _kernel_of_nests(name, key, scheduled, num_inputs, known)


def scheduled_kernel(name: str, func: tirx.PrimFunc, num_inputs: int) -> Kernel:
    """Return the kernel of a TIR function that is scheduled already, for example by MetaSchedule.

    A buffer that is used in one nest only is allocated there, so that every worker has its own.

    Parameters
    ----------
    name : str
        Display name of the kernel.
    func : tvm.tirx.PrimFunc
        A scheduled function with static shapes. Its parameters are inputs, then outputs.
    num_inputs : int
        How many parameters are inputs.

    Returns
    -------
    Kernel
        A kernel with one phase per loop nest.
    """
    passes = [
        s_tir.transform.LowerInitBlock(),
        s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
    ]
    placed = tvm.transform.Sequential(passes)(_module(accurate_near_zero(_narrowed(func))))
    key = ("scheduled", tvm_ffi.StructuralKey(placed["main"]))
    return _kernel_of_nests(name, key, placed["main"], num_inputs)


def _module(func: tirx.PrimFunc) -> tvm.IRModule:
    return tvm.IRModule({"main": func})


def _narrowed(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return the function with 32-bit indices, which LLVM vectorises better, where TVM can.

    It cannot where a tensor holds numbers of 64 bits. In nested blocks, as in a pooling whose
    windows differ in size, it narrows some axes but not others. Renewing the definitions makes such
    a function fail here rather than at its first use.
    """
    tensors = filter(_is_tensor, func.params)
    if any(str(tensor.dtype) in ("int64", "uint64") for tensor in tensors):
        return s_tir.renew_defs(func)
    narrow = tirx.transform.ForceNarrowIndexToInt32()(_module(func))["main"]
    return s_tir.renew_defs(narrow)


def _is_tensor(parameter: Any) -> bool:
    return not isinstance(parameter.ty, tvm.ir.PrimType)


_Sizes = Mapping[tirx.Var, AnySize]
"""What the variables of a function are."""


def _kernel_of_nests(
    name: str, key: Hashable, func: tirx.PrimFunc, num_inputs: int, sizes: _Sizes | None = None
) -> Kernel:
    """Make a phase of every loop nest of a function."""
    root, known = func.body.block, sizes or {}
    parameters = [p for p in func.params if _is_tensor(p)]
    buffers = [*parameters, *root.alloc_buffers]
    specs = [_spec(buffer, known) for buffer in buffers]
    nests = list(root.body.seq) if isinstance(root.body, tirx.SeqStmt) else [root.body]
    outputs = len(parameters)
    return Kernel(
        name=name,
        key=key,
        inputs=tuple(specs[:num_inputs]),
        outputs=tuple(specs[num_inputs:outputs]),
        scratch=tuple(specs[outputs:]),
        phases=tuple(_phase(nest, buffers, known) for nest in nests),
        sizes=tuple(known.values()),
    )


def _spec(buffer: Any, sizes: _Sizes) -> TensorSpec:
    return TensorSpec(tuple(evaluated(d, sizes) for d in buffer.shape), str(buffer.dtype))


def _phase(nest: tirx.Stmt, buffers: Sequence[Any], sizes: _Sizes) -> Phase:
    """Make a phase of a loop nest; its tiles are those of a parallel outermost loop."""
    tiled = isinstance(nest, tirx.For) and nest.kind == tirx.ForKind.PARALLEL
    num_tiles = evaluated(nest.extent, sizes) if tiled else 1
    return phase(num_tiles, _emitter(nest, buffers, tiled, sizes), large_buffers=True)


def _emitter(nest: tirx.Stmt, buffers: Sequence[Any], tiled: bool, sizes: _Sizes) -> Emit:
    def emit(actual: Sequence[Any], begin: Any, extent: Any) -> None:
        fresh = _instantiate(nest, buffers, actual, sizes)
        variable, body, annotations = tirx.Var("once", "int32"), fresh, {}
        if tiled:
            variable, body, annotations = fresh.loop_var, fresh.body, fresh.annotations
            begin, extent = (T.Cast(str(variable.ty.dtype), n) for n in (begin, extent))
        serial = tirx.ForKind.SERIAL
        with T.sblock("nest"):
            T.reads()
            T.writes()
            T.add_to_parent(
                tirx.For(variable, begin, extent, serial, body, annotations=annotations)
            )

    return emit


def _instantiate(
    nest: tirx.Stmt, buffers: Sequence[Any], actual: Sequence[Any], sizes: _Sizes
) -> tirx.Stmt:
    """Copy ``nest`` with new variables, working on the buffers ``actual``, of known sizes."""
    root = s_tir.SBlockRealize([], True, s_tir.SBlock([], [], [], "root", nest))
    renewed = s_tir.renew_defs(tirx.PrimFunc([*sizes, *buffers], root))
    given = [_typed(variable, size) for variable, size in sizes.items()]

    def replace(var: Any) -> Any:
        for old, new in zip(renewed.params, [*given, *actual], strict=True):
            if var.same_as(old):
                return new
        return var

    rewrites = [(tvm.ir.Var, replace), (tirx.For, _serial)]
    return tvm_ffi.structural_map(renewed.body.block.body, rewrites)


def _typed(variable: tirx.Var, size: AnySize) -> Any:
    """Return a size as an expression of a variable's type; some functions count in 64 bits."""
    return size.short.astype(str(variable.ty.dtype)) if isinstance(size, Size) else size


def _serial(loop: tirx.For) -> tirx.For:
    """Make a parallel loop serial: the loop runs on one worker, which starts no threads."""
    if loop.kind != tirx.ForKind.PARALLEL:
        return loop
    serial, annotations = tirx.ForKind.SERIAL, loop.annotations
    return tirx.For(
        loop.loop_var, loop.min, loop.extent, serial, loop.body, annotations=annotations
    )


def _schedule(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Inline injective blocks, vectorise reductions, and make each nest's outer loop parallel."""
    sch = s_tir.Schedule(func)
    for block in sch.get_child_blocks(sch.get_sblock("root")):
        if _branches(sch, block) and any(_reduces(sch, c) for c in sch.get_consumers(block)):
            continue  # a condition, as in padding, would keep LLVM from vectorising the reduction
        if any(
            _loads(sch, block) * _loads(sch, c, block) > _MOST_READS
            for c in sch.get_consumers(block)
        ):
            continue  # functions of functions, each of which reads its operand several times
        try:
            sch.compute_inline(block)
        except s_tir.ScheduleError:
            continue  # an output or a reduction: it keeps its own nest
    for block in sch.get_child_blocks(sch.get_sblock("root")):
        _tile_nest(sch, block)
    return sch.mod["main"]


def _loads(sch: s_tir.Schedule, block: Any, producer: Any = None) -> int:
    """Count what a block reads, as often as it does; or what it reads of another block's result."""
    written = None if producer is None else sch.get(producer).writes[0].source
    loads: list[tvm.ir.TensorLoad] = []
    tvm_ffi.structural_walk(sch.get(block).body, (tvm.ir.TensorLoad, loads.append))
    return sum(written is None or load.source.same_as(written) for load in loads)


def _tile_nest(sch: s_tir.Schedule, block: Any) -> None:
    """Fuse the outer data-parallel loops of a block into one parallel loop over its tiles."""
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
        parallel = parallel[:-1]  # LLVM vectorises the innermost loop
    outer = sch.fuse(*parallel) if len(parallel) > 1 else parallel[0]
    if len(loops) == 1 and _is_above(sch.get(outer).extent, _INNER):
        outer, _ = sch.split(outer, [None, _INNER])
    sch.parallel(outer)
    if width > 1:
        initial = sch.decompose_reduction(block, reduction[0])
        sch.vectorize(sch.get_loops(initial)[-1])


def _is_above(extent: Any, bound: int) -> bool:
    """Return whether a loop's extent is open, or large."""
    return not isinstance(extent, tirx.IntImm) or int(extent) > bound


def _vector_width(sch: s_tir.Schedule, block: Any, loop: Any) -> int:
    """Return how many neighbours along ``loop`` a reduction computes at once, 1 if not contiguous.

    LLVM must not reorder a floating-point sum, and would compute it element by element. TVM cannot
    store vectors of bfloat16.
    """
    if any(str(region.source.dtype) == "bfloat16" for region in sch.get(block).writes):
        return 1
    extent = sch.get(loop).extent
    if not isinstance(extent, tirx.IntImm):
        return 1
    extent = int(extent)
    width = max(w for w in range(1, _MAX_LANES + 1) if extent % w == 0)
    return width if width >= _MIN_LANES and _contiguous(sch, block, loop) else 1


def _contiguous(sch: s_tir.Schedule, block: Any, loop: Any) -> bool:
    """Return whether ``loop`` runs along the last axis of every tensor that it indexes."""
    realize, variable = sch.get(sch.get_loops(block)[-1]).body, sch.get(loop).loop_var
    pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    (axis,) = (axis.var for axis, value in pairs if variable.same_as(value))
    indices: list[Sequence[Any]] = []
    kinds = (tirx.BufferStore, tvm.ir.TensorLoad)
    tvm_ffi.structural_walk(realize.block.body, (kinds, lambda node: indices.append(node.indices)))
    return all(_step(index, axis) == 0 for *outer, _last in indices for index in outer)


def _step(index: Any, axis: Any) -> int | None:
    """Return by how much ``index`` grows with ``axis``, None if that is not constant."""
    parts = sym.detect_linear_equation(index, [axis])
    return int(parts[0]) if len(parts) > 0 and isinstance(parts[0], tirx.IntImm) else None


def _reduces(sch: s_tir.Schedule, block: Any) -> bool:
    return any(axis.iter_type == tirx.IterVar.CommReduce for axis in sch.get(block).iter_vars)


def _branches(sch: s_tir.Schedule, block: Any) -> bool:
    """Return whether a block's computation depends on a condition."""
    calls: list[tvm.ir.Call] = []
    tvm_ffi.structural_walk(sch.get(block).body, (tvm.ir.Call, calls.append))
    return any(call.op.same_as(_CONDITION) for call in calls)


def _leading_parallel(sch: s_tir.Schedule, loops: Sequence[Any]) -> list[Any]:
    """Return the outermost loops that each drive one data-parallel axis of the block inside."""
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
