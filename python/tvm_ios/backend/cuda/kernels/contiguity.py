# SPDX-License-Identifier: Apache-2.0
"""Contiguity: which elements are neighbours in memory.

One instruction can access several neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import tvm
import tvm_ffi
from tvm import sym, tirx

Expr = Any

MAX_BYTES = 16
"""The most bytes that one instruction of a thread reads or writes."""


def substitute(expr: Expr, values: Mapping[Any, Expr]) -> Expr:
    """Replace variables, including buffers, in ``expr``."""
    return tvm_ffi.structural_map(expr, [(tvm.ir.Var, lambda var: values.get(var, var))])


@lru_cache(maxsize=64)  # called for each tile of a product
def bits(dtype: str) -> int:
    """Return the bits of an element."""
    return tvm_ffi.dtype(dtype).bits


def address(buffer: Any, indices: Sequence[Expr]) -> Expr:
    """Return the position of an element in a row-major buffer."""
    flat: Expr = tirx.IntImm("int32", 0)
    for index, size in zip(indices, buffer.shape, strict=True):
        flat = flat * int(size) + index
    return flat


def step(flat: Expr, variable: tirx.Var, extents: Mapping[tirx.Var, int]) -> int:
    """Return the stride of ``variable`` in ``flat``, taken at its first step from the origin.

    The stride is 0 if it depends on the contents of a tensor.

    Parameters
    ----------
    flat : Expr
        The address.
    variable : tirx.Var
        The variable.
    extents : mapping
        Extent of each variable of ``flat``, from 0.

    Returns
    -------
    int
        Elements.
    """
    zero, one = (tirx.IntImm("int32", value) for value in (0, 1))
    origin = dict.fromkeys(extents, zero)
    distance = substitute(flat, origin | {variable: one}) - substitute(flat, origin)
    known = sym.Analyzer().simplify(distance)
    return int(known) if isinstance(known, tirx.IntImm) else 0


def vector_width(flat: Expr, variable: tirx.Var, extents: Mapping[tirx.Var, int], most: int) -> int:
    """Return how many elements along ``variable`` are accessed at once, a power of two.

    The elements are neighbours, in groups aligned to their number, or all the same element.

    Parameters
    ----------
    flat : Expr
        The address.
    variable : tirx.Var
        The variable.
    extents : mapping
        Extent of each variable of ``flat``, from 0.
    most : int
        The largest width, a power of two.

    Returns
    -------
    int
        Elements.
    """
    width = most
    while width > 1 and not _in_groups(flat, variable, extents, width):
        width //= 2
    return width


def _in_groups(flat: Expr, variable: tirx.Var, extents: Mapping[tirx.Var, int], width: int) -> bool:
    if extents[variable] % width:
        return False
    group, lane = tirx.Var("group", "int32"), tirx.Var("lane", "int32")
    analyzer = _analyzer({**extents, group: extents[variable] // width, lane: width})
    first = substitute(flat, {variable: group * width})
    distance = substitute(flat, {variable: group * width + lane}) - first
    if analyzer.can_prove_equal(distance, 0):
        return True
    return analyzer.can_prove_equal(distance, lane) and analyzer.can_prove_equal(first % width, 0)


def _analyzer(extents: Mapping[tirx.Var, int]) -> sym.Analyzer:
    analyzer = sym.Analyzer()
    for variable, extent in extents.items():
        analyzer.bind(variable, tvm.ir.Range.from_min_extent(0, extent))
    return analyzer
