# SPDX-License-Identifier: Apache-2.0
"""Pooling and depthwise convolutions with the channels last, and other short reductions.

A thread computes some neighbouring channels of some neighbouring columns, all in registers. It
reads and writes vectors, and the threads of a warp read neighbouring addresses. Every element that
is added has to be read, and the overlap of windows is served by the L1 cache, so shared memory
would gain nothing. The speed depends on wide vectors and on many threads, and at batch 1 these two
conflict.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from ....lowering.no_rule import NoRule
from ..limits import Limits
from .canonicalize_reduction import canonicalize_reduction
from .contiguity import MAX_BYTES, address, bits, vector_width
from .emit import LAUNCH

_THREADS = (128, 64, 96, 192, 256, 112, 224)  # of a block; small problems start with the second
_ENOUGH = 512  # threads that keep a multiprocessor busy
_COLUMNS = (1, 2, 4)
_MAX_WINDOW = 128  # elements that a thread adds one after another
_COUNT = 4


def window_kernels(function: tirx.PrimFunc, limits: Limits) -> list[tuple[str, tirx.PrimFunc]]:
    """Return kernels with their names, the one with the least predicted time first.

    Parameters
    ----------
    function : tvm.tirx.PrimFunc
        A schedulable function with static shapes.
    limits : Limits
        Of the device.

    Returns
    -------
    list of (str, tvm.tirx.PrimFunc)
        Scheduled functions by name.

    Raises
    ------
    NoRule
        If the function is not a short reduction.
    """
    sch, reduction, result = canonicalize_reduction(function)
    extents = [int(sch.get(loop).extent) for loop in sch.get_loops(result)]
    window = math.prod(int(sch.get(loop).extent) for loop in sch.get_loops(reduction))
    window //= math.prod(extents)
    if window > _MAX_WINDOW:
        raise NoRule
    vectors = [2**i for i in range(_vector(sch.get(reduction), sch.get(result)).bit_length())]
    columns = [c for c in _COLUMNS if len(extents) > 1 and extents[-2] % c == 0] or [1]

    enough = limits.multiprocessors * _ENOUGH

    def cost(shape: tuple[int, int]) -> float:
        threads = math.prod(extents) // math.prod(shape)
        return shape[1] * (1 + shape[0] / 4) * max(1.0, threads / enough)

    shapes = sorted(((v, c) for v in vectors for c in columns), key=cost)
    kernels = (
        (f"window_{c}x{v}", _kernel(function, v, c, math.prod(extents) // (v * c)))
        for v, c in shapes[:_COUNT]
    )
    return [(name, kernel) for name, kernel in kernels if kernel is not None]


def _vector(reduction: s_tir.SBlock, result: s_tir.SBlock) -> int:
    """Return how many channels are neighbours in memory in all tensors."""
    return min(_vector_of(reduction, reduction.body), _vector_of(result, result.body))


def _vector_of(block: s_tir.SBlock, store: tirx.Stmt) -> int:
    """Return the vector width of a block's accesses along the last axis that it does not reduce."""
    if not isinstance(store, tirx.BufferStore):
        raise NoRule
    axes: Mapping[Any, int] = {axis.var: int(axis.dom.extent) for axis in block.iter_vars}
    spatial = [a.var for a in block.iter_vars if a.iter_type == tirx.IterVar.DataPar]
    accesses: list[tuple[Any, Any]] = [(store.buffer, store.indices)]
    tvm_ffi.structural_walk(
        store.value,
        [(tvm.ir.TensorLoad, lambda load: accesses.append((load.source, load.indices)))],
    )
    most = (8 * MAX_BYTES // bits(str(buffer.dtype)) for buffer, _ in accesses)
    flat = [address(buffer, indices) for buffer, indices in accesses]
    return min(vector_width(f, spatial[-1], axes, m) for f, m in zip(flat, most, strict=True))


def _kernel(function: tirx.PrimFunc, vector: int, columns: int, total: int) -> tirx.PrimFunc | None:
    """Schedule ``total`` threads that compute ``columns`` x ``vector`` elements each.

    TVM does not analyse every index composed of blocks and threads: if they split one axis but not
    the next, it misinterprets the reduction. Another number of threads then works.
    """
    for threads in _THREADS if total > _ENOUGH else _THREADS[1:]:
        try:
            return _scheduled(function, vector, columns, threads)
        except s_tir.ScheduleError:
            continue
    return None


def _scheduled(function: tirx.PrimFunc, vector: int, columns: int, threads: int) -> tirx.PrimFunc:
    sch, reduction, result = canonicalize_reduction(function)
    *outer, channel = sch.get_loops(result)
    channel, lane = sch.split(channel, [None, vector])
    if columns > 1:
        outer[-1], column = sch.split(outer[-1], [None, columns])
        sch.reorder(channel, column)
    every = sch.fuse(*outer, channel)
    block, thread = sch.split(every, [None, threads])
    sch.bind(block, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    for key, value in LAUNCH.items():
        sch.annotate(thread, key, value)
    sch.compute_at(reduction, thread, preserve_unit_loops=True)
    _order(sch, reduction, vector)
    if vector > 1:
        sch.vectorize(lane)
    return sch.mod["main"].with_attr("tirx.is_scheduled", True)


def _order(sch: s_tir.Schedule, reduction: Any, vector: int) -> None:
    """Make the window the outer loops, so that the columns and the vectors stay in registers."""
    axes = sch.get(reduction).iter_vars
    loops = list(sch.get_loops(reduction))[-len(axes) :]
    kinds = [axis.iter_type == tirx.IterVar.CommReduce for axis in axes]
    window = [loop for loop, reduces in zip(loops, kinds, strict=True) if reduces]
    numbers = [loop for loop, reduces in zip(loops, kinds, strict=True) if not reduces]
    sch.reorder(*window, *numbers)
    for loop in (*window, *numbers[:-1]):
        sch.unroll(loop)
    if vector > 1:
        sch.vectorize(numbers[-1])
    initial = sch.decompose_reduction(reduction, window[0])
    if vector > 1:
        sch.vectorize(sch.get_loops(initial)[-1])
