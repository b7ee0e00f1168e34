# SPDX-License-Identifier: Apache-2.0
"""Conversion of TIR functions to feature maps with the channels last.

TVM's operators work on ``[N, C, H, W]``. A GPU prefers the channels of a pixel side by side:
threads that compute neighbouring channels then read neighbouring addresses, and these channels are
rows of a tensor core's operands.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import tvm
from tvm import s_tir, tirx

_AXES = 4


def channels_last(
    function: tirx.PrimFunc, maps: Collection[int], weights: Collection[int] = ()
) -> tirx.PrimFunc:
    """Rewrite ``function`` for tensors in other layouts, with loops in the order of memory.

    Parameters
    ----------
    function : tvm.tirx.PrimFunc
        A schedulable function with static shapes.
    maps : collection of int
        Parameters of four axes ``[N, C, H, W]`` that become ``[N, H, W, C]``. The function's
        internal tensors of four axes become so, too.
    weights : collection of int
        Parameters ``[O, I, H, W]`` that become ``[H, W, I, O]``.

    Returns
    -------
    tvm.tirx.PrimFunc
        The rewritten function.
    """
    schedule = s_tir.Schedule(tvm.IRModule({"main": function}))
    parameters = list(function.params)
    turned: set[Any] = set()
    for block in _blocks(schedule):
        statement = schedule.get(block)
        for kind, regions in (("read", statement.reads), ("write", statement.writes)):
            for index, region in enumerate(regions):
                number = _index_of(region.source, parameters)
                name = region.source.name if number is None else number
                if name in turned:
                    continue
                order = _order(region.source, number, maps, weights)
                if order is not None:
                    turned.add(name)
                    schedule.transform_layout(block, (kind, index), order)
    for block in _blocks(schedule):
        _reorder(schedule, block)
    return schedule.mod["main"]


def _blocks(schedule: s_tir.Schedule) -> list[Any]:
    return schedule.get_child_blocks(schedule.get_sblock("root"))


def _index_of(buffer: Any, parameters: Sequence[Any]) -> int | None:
    return next((i for i, p in enumerate(parameters) if p.name == buffer.name), None)


def _order(
    buffer: Any, number: int | None, maps: Collection[int], weights: Collection[int]
) -> Any | None:
    """Return the new order of a tensor's axes, None if they stay."""
    if number in weights:
        return lambda o, i, h, w: (h, w, i, o)
    inner = number is None and len(buffer.shape) == _AXES
    return (lambda n, c, h, w: (n, h, w, c)) if inner or number in maps else None


def _reorder(schedule: s_tir.Schedule, block: Any) -> None:
    """Order spatial loops by the result's axes, and reductions by those of the last read."""
    statement = schedule.get(block)
    write = statement.writes[0]
    spatial = [v.var for v in statement.iter_vars if v.iter_type == tirx.IterVar.DataPar]
    reduced = [v.var for v in statement.iter_vars if v.iter_type != tirx.IterVar.DataPar]
    order = [i for r in write.region if (i := _index(spatial, r.min)) is not None]
    if len(order) < len(write.region) or sorted(order) != list(range(len(spatial))):
        return
    if reduced:
        read = [_index(reduced, r.min) for r in statement.reads[-1].region]
        first = [i for i in read if i is not None]
        rest = [i for i in range(len(reduced)) if i not in first]
        order += [len(spatial) + i for i in (*first, *rest)]
    if order == sorted(order):
        return
    place_of = {v.var: i for i, v in enumerate(statement.iter_vars)}
    places = [place_of[(spatial + reduced)[i]] for i in order]
    loops = schedule.get_loops(block)
    schedule.reorder(*(loops[i] for i in places))
    schedule.reorder_block_iter_var(block, places)


def _index(variables: Sequence[Any], index: Any) -> int | None:
    return next((i for i, v in enumerate(variables) if index.same_as(v)), None)
