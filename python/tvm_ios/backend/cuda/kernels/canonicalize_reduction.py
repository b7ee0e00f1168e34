# SPDX-License-Identifier: Apache-2.0
"""Canonicalization of functions that reduce along some axes into two blocks."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import s_tir, tirx

from ....lowering.no_rule import NoRule


def canonicalize_reduction(function: tirx.PrimFunc) -> tuple[s_tir.Schedule, Any, Any]:
    """Reduce a function to two blocks: the reduction, and the computation of the result from it.

    Elementwise operations before the reduction (padding, a ReLU) become part of the values that it
    reads. Those after it (bias, ReLU, a residual, a reshape) become the second block.

    Parameters
    ----------
    function : tvm.tirx.PrimFunc
        A schedulable function with static shapes.

    Returns
    -------
    (Schedule, SBlockRV, SBlockRV)
        The second block reads the first block's result from a buffer of scope ``local``.

    Raises
    ------
    NoRule
        If the function has no reduction or several, or results that do not depend on it alone.
    """
    sch = s_tir.Schedule(_narrowed(function))
    root = sch.get_sblock("root")
    for block in sch.get_child_blocks(root):
        try:
            sch.compute_inline(block)
        except s_tir.ScheduleError:
            continue  # a reduction, or a result of the function
    reductions = [b for b in sch.get_child_blocks(root) if _reduces(sch.get(b))]
    if len(reductions) != 1:
        raise NoRule
    try:
        result = _cached(sch, reductions[0])
        while consumers := list(sch.get_consumers(result)):
            sch.reverse_compute_inline(consumers[0])
    except s_tir.ScheduleError as error:
        raise NoRule from error
    blocks = (reductions[0], result)
    if len(sch.get_child_blocks(root)) != 2 or not all(_is_whole(sch, b) for b in blocks):
        raise NoRule
    return sch, *blocks


def _cached(sch: s_tir.Schedule, reduction: Any) -> Any:
    """Let a reduction write to a local buffer, and return the block that copies it from there."""
    block = sch.get(reduction)
    spatial = [axis.var for axis in block.iter_vars if axis.iter_type == tirx.IterVar.DataPar]
    at = list(block.body.indices) if isinstance(block.body, tirx.BufferStore) else spatial
    if set(at) == set(spatial):
        return sch.cache_write(reduction, 0, "local")
    # It writes to a slice of a tensor. The local buffer need not hold the rest of it.
    places = [i for i, axis in enumerate(block.iter_vars) if axis.var in spatial]
    own = [tirx.Var(f"i{n}", str(axis.var.ty)) for n, axis in enumerate(block.iter_vars)]
    index_map = tirx.IndexMap(own, [own[i] for i in places], None)
    return sch.reindex_cache_write(reduction, 0, "local", index_map)


def _narrowed(function: tirx.PrimFunc) -> tirx.PrimFunc:
    try:
        return tirx.transform.ForceNarrowIndexToInt32()(tvm.IRModule({"main": function}))["main"]
    except tvm.error.InternalError as error:
        raise NoRule from error  # tensors of int64


def _reduces(block: s_tir.SBlock) -> bool:
    return any(axis.iter_type == tirx.IterVar.CommReduce for axis in block.iter_vars)


def _is_whole(sch: s_tir.Schedule, block: Any) -> bool:
    """Return whether a block runs for all iterations of its loops."""
    loops = sch.get_loops(block)
    if not loops:
        return False
    predicate = sch.get(loops[-1]).body.predicate
    return isinstance(predicate, tirx.IntImm) and int(predicate) == 1
