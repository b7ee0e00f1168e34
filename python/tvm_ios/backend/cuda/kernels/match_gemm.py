# SPDX-License-Identifier: Apache-2.0
"""Recognition of matrix products: convolutions, dense layers, batches of products.

A function matches if one of its blocks sums products ``left * right`` and everything else is
elementwise. It then has four axes, whatever their names in the function:

=========  ================================  ========================  ===========
axis       runs along                        of a convolution          of a matmul
=========  ================================  ========================  ===========
batch      left, right and the result        none                      batch
rows       left and the result               n, h, w of the result     i
columns    right and the result              channels of the result    j
depth      left and right                    kernel's h, w, channels   k
=========  ================================  ========================  ===========

Elementwise operations before the product (padding, a ReLU) become part of ``left`` or ``right``.
Those after it (bias, ReLU, a residual, a reshape) become a function of the sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from ....lowering.no_rule import NoRule
from .canonicalize_reduction import canonicalize_reduction
from .contiguity import MAX_BYTES, address, bits, step, substitute, vector_width
from .expressions import is_zero, loads_in, variables_in
from .slices import ChannelSlice

Expr = Any


@dataclass(frozen=True)
class Axes:
    """Several axes of a block, fused into one; the last runs fastest."""

    variables: tuple[tirx.Var, ...] = ()
    extents: tuple[int, ...] = ()

    @property
    def extent(self) -> int:
        """The number of elements along the fused axis."""
        return math.prod(self.extents)

    def split(self, index: Expr, lane: Expr = 0) -> dict[tirx.Var, Expr]:
        """Return the value of every variable at index ``index + lane`` of the fused axis.

        ``lane`` must not carry into the last but one variable. Only the last variable then depends
        on it, and vectors need no conditions on the others.
        """
        values: dict[tirx.Var, Expr] = {}
        inner = 1
        for variable, extent in reversed(list(zip(self.variables, self.extents, strict=True))):
            quotient = index // inner if inner > 1 else index
            outermost = inner * extent == self.extent
            values[variable] = quotient if outermost else quotient % extent
            inner *= extent
        if self.variables:
            values[self.variables[-1]] += lane
        return values


@dataclass(frozen=True)
class Operand:
    """One side of the product.

    Attributes
    ----------
    value : Expr
        An element, in terms of the form's axes.
    dtype : str
    along_depth : bool
        Whether neighbours along the depth are neighbours in memory; else neighbours along the rows
        or the columns are.
    vector : int
        Elements along that axis that can be read at once.
    """

    value: Expr
    dtype: str
    along_depth: bool
    vector: int


@dataclass(frozen=True)
class Product:
    """The summands along one depth."""

    left: Operand
    right: Operand
    depth: Axes


@dataclass(frozen=True)
class Result:
    """A tensor that holds the columns ``begin`` to ``end``, from ``first`` on in its last axis."""

    buffer: Any
    begin: int
    end: int
    first: int = 0


@dataclass(frozen=True)
class ColumnPart:
    """Neighbouring columns of a product that are a tensor, or a slice of one."""

    width: int
    within: ChannelSlice

    @staticmethod
    def of(width: int, within: ChannelSlice | None) -> ColumnPart:
        """Return columns that are a tensor of their own if they are within no other."""
        return ColumnPart(width, within or ChannelSlice(0, width))

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers that a vector's width must divide."""
        return self.width, self.within.begin, self.within.total


@dataclass(frozen=True)
class GemmMatch:
    """A function as a matrix product, or as a sum of several.

    Attributes
    ----------
    parameters : tuple
        The function's tensors.
    batch, rows, columns : Axes
    products : tuple of Product
        The summands; one product, unless several functions were combined (``gemm_sum``).
    dtype : str
        Type of the sum as its readers see it.
    total : Expr
        The placeholder of the sum in ``value``.
    results : tuple of Result
        The tensors that are written.
    indices : tuple
        Index of an element in a tensor that held all columns, in terms of the batch, the rows and
        the columns.
    value : Expr
        The value written there, in terms of these axes and of ``total``.
    vector : int
        Neighbours along the columns that can be written at once.
    """

    parameters: tuple[Any, ...]
    batch: Axes
    rows: Axes
    columns: Axes
    products: tuple[Product, ...]
    dtype: str
    total: Expr
    results: tuple[Result, ...]
    indices: tuple[Expr, ...]
    value: Expr
    vector: int


def match_gemm(function: tirx.PrimFunc) -> GemmMatch:
    """Match ``function`` as a matrix product.

    Parameters
    ----------
    function : tvm.tirx.PrimFunc
        A schedulable function with static shapes.

    Returns
    -------
    GemmForm
        The product.

    Raises
    ------
    NoRule
        If the function is not a matrix product.
    """
    sch, product, result = canonicalize_reduction(function)
    return _form(sch.mod["main"].params, sch.get(product), sch.get(result))


def divide_columns(match: GemmMatch, parts: Sequence[ColumnPart]) -> GemmMatch:
    """Return the product with its columns written to several tensors, one after another.

    Parameters
    ----------
    match : GemmMatch
        A form with one result, which is its last parameter and has the columns as its last axis.
    parts : sequence of ColumnPart
        What each tensor holds.

    Returns
    -------
    GemmMatch
        A form with one result per part.
    """
    (whole,) = match.results
    (column,) = match.columns.variables
    assert match.parameters[-1].same_as(whole.buffer), "the result is the last parameter"
    assert match.indices[-1].same_as(column), "the columns are the last axis"
    ends = list(accumulate(part.width for part in parts))
    assert ends[-1] == match.columns.extent, "the parts cover all columns"
    outer = [int(size) for size in whole.buffer.shape[:-1]]
    dtype = str(whole.buffer.dtype)

    def result(number: int, part: ColumnPart, end: int) -> Result:
        buffer = tirx.decl_buffer((*outer, part.within.total), dtype, f"result{number}")
        return Result(buffer, end - part.width, end, part.within.begin)

    results = tuple(
        result(i, part, end) for i, (part, end) in enumerate(zip(parts, ends, strict=True))
    )
    return replace(
        match,
        parameters=(*match.parameters[:-1], *(result.buffer for result in results)),
        results=results,
        vector=math.gcd(match.vector, *(n for part in parts for n in part.numbers)),
    )


def _form(parameters: Sequence[Any], product: s_tir.SBlock, result: s_tir.SBlock) -> GemmMatch:
    store, written = product.body, result.body
    stores = (store, written)
    if not all(isinstance(s, tirx.BufferStore) for s in stores) or not _starts_at_zero(product):
        raise NoRule
    kinds = {axis.var: axis.iter_type for axis in product.iter_vars}
    at = list(store.indices)
    if {v for v, kind in kinds.items() if kind == tirx.IterVar.DataPar} != set(at):
        raise NoRule  # or an index is not a plain axis
    names = dict(zip((axis.var for axis in result.iter_vars), at, strict=True))
    if not all(list(load.indices) == list(names) for load in _loads_of(written, store.buffer)):
        raise NoRule
    indices = [substitute(index, names) for index in written.indices]
    extents = {axis.var: int(axis.dom.extent) for axis in product.iter_vars}
    single = {var: tirx.IntImm("int32", 0) for var, extent in extents.items() if extent == 1}
    factors = [substitute(factor, single) for factor in _factors(store)]
    spatial = _far_first(address(written.buffer, indices), at, extents)
    left, right, order = _divide_axes([v for v in spatial if v not in single], factors, extents)
    batch, rows, columns, depth = (
        Axes(tuple(part), tuple(extents[v] for v in part)) for part in order
    )
    if batch.extent > 1 and 1 in (rows.extent, columns.extent):
        raise NoRule  # as in a depthwise convolution, which uses elements of one side once
    total = tirx.Var("total", str(store.buffer.dtype))
    value = substitute(substitute(_of_total(written.value, store.buffer, total), names), single)
    return GemmMatch(
        parameters=tuple(parameters),
        batch=batch,
        rows=rows,
        columns=columns,
        products=(
            Product(
                left=_operand(left, rows, depth, extents),
                right=_operand(right, columns, depth, extents),
                depth=depth,
            ),
        ),
        dtype=str(store.buffer.dtype),
        total=total,
        results=(Result(written.buffer, 0, columns.extent),),
        indices=tuple(substitute(index, single) for index in indices),
        value=value,
        vector=_vector(written.buffer, indices, columns, extents),
    )


def _starts_at_zero(product: s_tir.SBlock) -> bool:
    initial = product.init
    return isinstance(initial, tirx.BufferStore) and is_zero(initial.value)


def _factors(store: tirx.BufferStore) -> tuple[Expr, Expr]:
    """Return ``left`` and ``right`` of ``sum = sum + left * right``, without conversions."""
    if not isinstance(store.value, tirx.Add):
        raise NoRule
    parts = [store.value.a, store.value.b]
    terms = [p for p in parts if not _is_load_of(p, store.buffer)]
    if len(terms) != 1 or not isinstance(terms[0], tirx.Mul):
        raise NoRule
    return _unconverted(terms[0].a), _unconverted(terms[0].b)


def _is_load_of(expr: Expr, buffer: Any) -> bool:
    return isinstance(expr, tvm.ir.TensorLoad) and expr.source.same_as(buffer)


def _unconverted(expr: Expr) -> Expr:
    return _unconverted(expr.value) if isinstance(expr, tirx.Cast) else expr


def _divide_axes(
    at: Sequence[tirx.Var], factors: Sequence[Expr], extents: Mapping[tirx.Var, int]
) -> tuple[Expr, Expr, tuple[list[Any], list[Any], list[Any], list[Any]]]:
    """Return left and right, and the axes of the batch, the rows, the columns and the depth.

    ``at`` is in the order of the result's axes, and the columns run fastest in it. The depth runs
    as it does in ``right``, which holds the weights of a convolution.
    """
    used = [variables_in(factor) for factor in factors]
    both = used[0] & used[1]
    if not set(at) <= used[0] | used[1]:
        raise NoRule
    own = [v for v in at if v not in both]
    swap = bool(own) and own[-1] in used[0]
    (left, of_left), (right, of_right) = sorted(
        zip(factors, used, strict=True), key=lambda side: (side[1] is used[0]) == swap
    )
    depth = both - set(at)
    if (of_left | of_right) - set(at) != depth:
        raise NoRule  # the sum reduces one side alone
    loads = loads_in(right)
    if not loads:
        raise NoRule
    load = max(loads, key=lambda load: len(variables_in(load)))
    order = _far_first(address(load.source, load.indices), depth, extents)
    batch, rows = [v for v in at if v in both], [v for v in own if v in of_left]
    return left, right, (batch, rows, [v for v in own if v in of_right], order)


def _far_first(
    flat: Expr, variables: Iterable[tirx.Var], extents: Mapping[tirx.Var, int]
) -> list[tirx.Var]:
    """Sort variables by their stride in an address, largest first."""
    return sorted(variables, key=lambda v: (-step(flat, v, extents), v.name))


def _loads_of(store: tirx.BufferStore, buffer: Any) -> list[Any]:
    return [load for load in loads_in(store.value) if load.source.same_as(buffer)]


def _of_total(value: Expr, buffer: Any, total: Expr) -> Expr:
    """Replace every element of the sum that ``value`` reads by ``total``."""

    def replace(load: Any) -> Any:
        return total if load.source.same_as(buffer) else load

    return tvm_ffi.structural_map(value, [(tvm.ir.TensorLoad, replace)])


def _operand(value: Expr, outer: Axes, depth: Axes, extents: Mapping[tirx.Var, int]) -> Operand:
    loads = loads_in(value)
    if not loads:
        raise NoRule
    main = max(loads, key=lambda load: math.prod(int(d) for d in load.source.shape))
    along_depth = _beside(main, depth, extents) or not _beside(main, outer, extents)
    along = depth if along_depth else outer
    vector = min(_vector(load.source, load.indices, along, extents) for load in loads)
    return Operand(value, str(value.ty.dtype), along_depth, vector)


def _beside(load: Any, along: Axes, extents: Mapping[tirx.Var, int]) -> bool:
    flat = address(load.source, load.indices)
    return bool(along.variables) and step(flat, along.variables[-1], extents) == 1


def _vector(
    buffer: Any, indices: Sequence[Expr], along: Axes, extents: Mapping[tirx.Var, int]
) -> int:
    if not along.variables:
        return 1
    most = 8 * MAX_BYTES // bits(str(buffer.dtype))
    return vector_width(address(buffer, indices), along.variables[-1], extents, most)
