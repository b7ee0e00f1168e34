# SPDX-License-Identifier: Apache-2.0
"""Functions whose tensors are slices of larger ones, along the last axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx


@dataclass(frozen=True)
class ChannelSlice:
    """A range of a tensor's last axis, from ``begin`` on; the axis has ``total`` elements."""

    begin: int
    total: int


def within_slices(function: tirx.PrimFunc, slices: Mapping[int, ChannelSlice]) -> tirx.PrimFunc:
    """Return a function that reads and writes slices of larger tensors.

    Parameters
    ----------
    function : tvm.tirx.PrimFunc
        A schedulable function with static shapes.
    slices : mapping of int to ChannelSlice
        Parameters, by position, that become the larger tensors; and what of these was the tensor.

    Returns
    -------
    tvm.tirx.PrimFunc
        The function of the larger tensors.
    """
    if not slices:
        return function
    larger = {
        function.params[i]: _larger(function.params[i], slice_) for i, slice_ in slices.items()
    }
    begins = {larger[function.params[i]]: slice_.begin for i, slice_ in slices.items()}

    def moved(indices: Sequence[Any], buffer: Any) -> list[Any]:
        *outer, last = indices
        return [*outer, last + begins[buffer]]

    def variable(var: Any) -> Any:
        return larger.get(var, var)

    def load(expr: Any) -> Any:
        if expr.source not in begins:
            return expr
        return tirx.BufferLoad(expr.source, moved(expr.indices, expr.source))

    def store(statement: tirx.BufferStore) -> tirx.Stmt:
        if statement.buffer not in begins:
            return statement
        indices = moved(statement.indices, statement.buffer)
        return tirx.BufferStore(statement.buffer, statement.value, indices)

    def region(accessed: Any) -> Any:
        if accessed.source not in begins:
            return accessed
        *outer, last = accessed.region
        first = last.min + begins[accessed.source]
        last = tvm.ir.Range.from_min_extent(first, last.extent)
        return tirx.BufferRegion(accessed.source, [*outer, last])

    rewrite = [
        (tvm.ir.Var, variable),
        (tvm.ir.TensorLoad, load),
        (tirx.BufferStore, store),
        (tvm.ir.expr.TensorRegion, region),
    ]
    body = tvm_ffi.structural_map(function.body, rewrite)
    return tirx.PrimFunc(list(map(variable, function.params)), body, attrs=function.attrs)


def _larger(tensor: Any, slice_: ChannelSlice) -> Any:
    *outer, _ = (int(extent) for extent in tensor.shape)
    return tirx.decl_buffer((*outer, slice_.total), str(tensor.dtype), tensor.name, layout=None)
