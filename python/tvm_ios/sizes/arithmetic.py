# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of sizes and shapes, some of which are open, and what is required of them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tvm
from tvm import tirx

from .expressions import BINARY, Expr, long
from .size import AnyShape, AnySize, Size, equality, expr_of, hint_of, known_equal


def is_empty(shape: Iterable[AnySize]) -> bool:
    """Return whether a tensor has no elements; open sizes are at least 1."""
    return any(not isinstance(size, Size) and size == 0 for size in shape)


def is_one(shape: Sequence[AnySize]) -> bool:
    """Return whether a tensor is known to be a number, or a list of one."""
    return not shape or (len(shape) == 1 and known_equal(shape[0], 1))


def evaluated(expr: Expr, values: Mapping[tvm.ir.Var, AnySize]) -> AnySize:
    """Return the value of an expression of TIR, given those of its variables.

    Raises
    ------
    TypeError
        If it is not made of sizes.
    """
    if isinstance(expr, tirx.IntImm):
        return int(expr.value)
    if isinstance(expr, tvm.ir.Var) and expr in values:
        return values[expr]
    compute = _COMPUTE.get(type(expr))
    if compute is None:
        raise TypeError(f"{expr} is no size")
    result: AnySize = compute(evaluated(expr.a, values), evaluated(expr.b, values))
    return result


def smallest(first: AnySize, *others: AnySize) -> AnySize:
    """Return the smallest of sizes, without an assumption of which that is."""
    return _extreme(first, others, min, tirx.min)


def largest(first: AnySize, *others: AnySize) -> AnySize:
    """Return the largest of sizes, without an assumption of which that is."""
    return _extreme(first, others, max, tirx.max)


def ceil_div(size: AnySize, divisor: int) -> AnySize:
    """Return how many parts of some size a whole has; the last one may be smaller."""
    return -(-size // divisor)


def broadcast(*shapes: Sequence[AnySize]) -> AnyShape:
    """Return the shape that shapes are broadcast to.

    Raises
    ------
    ValueError
        If two of them do not fit.
    """
    rank = max(map(len, shapes), default=0)
    result: list[AnySize] = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            if known_equal(size, result[axis]) or known_equal(size, 1):
                continue
            if known_equal(result[axis], 1):
                result[axis] = size
            elif require_equal(size, result[axis]):
                result[axis] = size if isinstance(size, int) else result[axis]
            else:
                raise ValueError(f"shapes {tuple(shape)} and {tuple(result)} do not broadcast")
    return tuple(result)


def same_shape(a: Sequence[AnySize], b: Sequence[AnySize]) -> bool:
    """Return whether two shapes are the same for all dimensions, without an assumption."""
    return len(a) == len(b) and all(map(known_equal, a, b))


def without_common(
    a: Sequence[AnySize], b: Sequence[AnySize]
) -> tuple[list[AnySize], list[AnySize]]:
    """Return the factors of two products without those that both have."""
    above, below = _factors(a), _factors(b)
    for factor in list(below):
        for i, other in enumerate(above):
            if isinstance(factor, Size) and isinstance(other, Size) and known_equal(factor, other):
                below = [x for x in below if x is not factor]
                del above[i]
                break
    numbers = [math.prod(n for n in side if isinstance(n, int)) for side in (above, below)]
    common = math.gcd(*numbers) or 1
    sizes = ([n for n in side if isinstance(n, Size)] for side in (above, below))
    first, second = ([*s, n // common] for s, n in zip(sizes, numbers, strict=True))
    return first, second


def _factors(sizes: Iterable[AnySize]) -> list[AnySize]:
    """Return what sizes are products of."""
    found: list[AnySize] = []
    for size in sizes:
        if isinstance(size, Size) and isinstance(size.expr, tirx.Mul):
            owner = size.owner
            found += _factors([owner.size(size.expr.a), owner.size(size.expr.b)])
        else:
            found.append(size)
    return found


def require_equal(a: AnySize, b: AnySize) -> bool:
    """Return whether two sizes can be equal, which is assumed then; see OpenSizes.require."""
    found = equality(a, b)
    return a == b if found is None else found[0].require(found[1])


def require_least(size: AnySize, least: int) -> bool:
    """Return whether a size can be as large as a number, which is assumed then."""
    if isinstance(size, Size):
        return size.owner.require(tirx.GE(size.expr, long(least)))
    return size >= least


def require_most(size: AnySize, most: AnySize) -> bool:
    """Return whether a size can be as small as another one, which is assumed then."""
    return require_least(most - size, 0)


def limited(size: AnySize, most: int) -> bool:
    """Return whether a size is at most a number; code for an open one refuses larger ones."""
    if isinstance(size, Size):
        size.owner.limit(tirx.LE(size.expr, long(most)))
        return True
    return size <= most


def _extreme(
    first: AnySize,
    others: Sequence[AnySize],
    of_ints: Callable[[int, int], int],
    of_exprs: Callable[[Any, Any], Any],
) -> AnySize:
    result = first
    for other in others:
        owner = next((s.owner for s in (result, other) if isinstance(s, Size)), None)
        if owner is None:
            result = of_ints(hint_of(result), hint_of(other))
            continue
        is_less = owner.proven(tirx.LE(expr_of(result), expr_of(other)))
        if is_less is None:
            result = owner.size(of_exprs(expr_of(result), expr_of(other)))
        elif is_less is (of_ints is max):
            result = other
    return result


_COMPUTE: dict[type, Callable[[Any, Any], Any]] = {
    **BINARY,
    tirx.FloorDiv: operator.floordiv,
    tirx.FloorMod: operator.mod,
    tirx.Min: smallest,
    tirx.Max: largest,
}
