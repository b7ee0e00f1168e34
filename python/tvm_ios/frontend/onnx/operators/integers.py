# SPDX-License-Identifier: Apache-2.0
"""Products of 8-bit integers, computed in float32.

Integers up to 2**24 are exact in float32, and so is a sum of them in any order as long as no part
of it is larger. What is multiplied here are such integers, so that kernels for float32, and those
that store such integers as bytes, compute what is defined by sums of 32 bits. A sum that may be
larger is computed in several parts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import relax

from ....ops.epilogue import EXACT
from ....sizes.arithmetic import is_one, require_equal
from ....sizes.size import known_equal
from ...emitter import constant, constant_array, dtype_of, is_constant, shape_of
from ..node_emitter import NodeEmitter

LARGEST = 255
"""The largest magnitude of an 8-bit integer, less a zero point."""

_TERMS = 64  # a multiple of the bytes that kernels multiply at a time


def check_bytes(emit: NodeEmitter, *tensors: relax.Expr) -> None:
    """Raise a ModelError for a tensor that is not of 8-bit integers."""
    for tensor in tensors:
        if dtype_of(tensor) not in ("int8", "uint8"):
            raise emit.error(f"multiplies {dtype_of(tensor)}, but takes int8 and uint8.")


def less_zero(
    emit: NodeEmitter, data: relax.Expr, zero_point: relax.Expr | None, axis: int
) -> relax.Expr:
    """Return 8-bit integers less their zero points as float32.

    Parameters
    ----------
    emit : NodeEmitter
    data : relax.Expr
    zero_point : relax.Expr or None
        One, or one for each place along an axis, or a tensor that broadcasts.
    axis : int
        That axis.
    """
    known = None if zero_point is None else constant_array(zero_point)
    if zero_point is None or (known is not None and not known.any()):
        return emit.cast(data, "float32")
    if dtype_of(zero_point) != dtype_of(data):
        raise emit.error(f"has a zero point of {dtype_of(zero_point)} for {dtype_of(data)}.")
    if is_one(shape_of(zero_point)) and not is_constant(data):
        return steps(emit, data, emit.reshape(zero_point, []))
    wide = emit.cast(data, "float32")
    zero = emit.cast(placed(emit, zero_point, data, axis), "float32")
    return emit.difference(wide, zero)


def steps(emit: NodeEmitter, data: relax.Expr, zero: relax.Expr) -> relax.Expr:
    """Return integers less one number, in an operator that shows that they are on a grid."""
    one, last = relax.const(1.0, "float32"), max(len(shape_of(data)) - 1, 0)
    return emit(relax.op.dequantize(data, one, zero, last, "float32"))


def placed(emit: NodeEmitter, part: relax.Expr, data: relax.Expr, axis: int) -> relax.Expr:
    """Return one number, or one for each place along an axis of data, so that they broadcast."""
    sizes, shape = shape_of(part), shape_of(data)
    if is_one(sizes):
        return emit.reshape(part, [])
    place = emit.axis(axis, len(shape))
    if len(sizes) == 1 and require_equal(sizes[0], shape[place]):
        return emit.along(part, axis, len(shape))
    pairs = zip(sizes, shape, strict=False)
    if len(sizes) == len(shape) and all(known_equal(a, 1) or require_equal(a, b) for a, b in pairs):
        return part
    raise emit.error(f"has scales or zero points of {list(sizes)} for data of {list(shape)}.")


def exact_product(
    emit: NodeEmitter,
    a: relax.Expr,
    b: relax.Expr,
    a_zero_point: relax.Expr | None,
    b_zero_point: relax.Expr | None,
) -> relax.Expr:
    """Return a matrix product of 8-bit integers, less their zero points, as int32."""
    right, depth = less_zero(emit, b, b_zero_point, -1), shape_of(a)[-1]
    if not require_equal(depth, shape_of(b)[max(len(shape_of(b)) - 2, 0)]):
        raise emit.error(f"multiplies {list(shape_of(a))} by {list(shape_of(b))}.")
    ends = exact_ends(_magnitudes(right, depth))
    parts = []
    for begin, end in zip([0, *ends], ends, strict=False):
        rows = _rows(emit, right, begin, end)
        columns = emit.slice(a, len(shape_of(a)) - 1, begin, end)
        parts.append(counted(emit, product_of(emit, columns, rows, a_zero_point)))
    return total_of(emit, parts)


def counted(emit: NodeEmitter, total: relax.Expr) -> relax.Expr:
    """Return a sum of integers that is exact in float32 as int32."""
    return emit.cast(whole(emit, total), "int32")


def whole(emit: NodeEmitter, total: relax.Expr) -> relax.Expr:
    """Return a sum of integers that is exact in float32 so that what computes it knows this."""
    rounded = emit(relax.op.round(total))
    return emit(relax.op.clip(rounded, -float(EXACT), float(EXACT)))


def total_of(emit: NodeEmitter, parts: Sequence[relax.Expr]) -> relax.Expr:
    """Add parts of a sum, in int32."""
    total = parts[0]
    for part in parts[1:]:
        total = emit(relax.op.add(total, part))
    return total


def product_of(
    emit: NodeEmitter, a: relax.Expr, right: relax.Expr, a_zero_point: relax.Expr | None
) -> relax.Expr:
    """Return the product of 8-bit integers, less their zero point, with integers in float32.

    Where the zero point is computed while the model runs and the right ones are not, it is
    multiplied by their sums, so that the left ones stay what fits into bytes.

    Parameters
    ----------
    emit : NodeEmitter
    a : relax.Expr
    right : relax.Expr
        Integers, less their zero points.
    a_zero_point : relax.Expr or None
    """
    known = constant_array(right)
    computed = a_zero_point is not None and not is_constant(a_zero_point)
    if not computed or known is None or known.ndim != 2 or not is_one(shape_of(a_zero_point)):
        left = less_zero(emit, a, a_zero_point, -2)
        return emit(relax.op.matmul(left, right))
    sums = constant(known.sum(0, dtype="float64").astype("float32"))
    zero = emit.cast(emit.reshape(a_zero_point, []), "float32")
    added = emit(relax.op.multiply(sums, zero))  # before the product, which subtracts it at once
    left = steps(emit, a, emit.full([], 0, dtype_of(a)))
    product = emit(relax.op.matmul(left, right))
    return emit(relax.op.subtract(product, added))


def _magnitudes(right: relax.Expr, depth: int) -> np.ndarray:
    """Return how large what is multiplied is at most, by its place in the sum."""
    known = constant_array(right)
    if known is None or known.ndim < 2:
        return np.full((depth, 1), float(LARGEST))
    return np.abs(known.astype("float64")).swapaxes(-2, 0).reshape(known.shape[-2], -1)


def exact_ends(magnitudes: np.ndarray) -> list[int]:
    """Return where to end the parts of a sum for each to be exact; at least one.

    Large parts are multiples of what kernels of bytes multiply at a time.

    Parameters
    ----------
    magnitudes : numpy.ndarray
        Of what 8-bit integers are multiplied by: ``[terms, sums]``.
    """
    begin, depth, ends = 0, len(magnitudes), []
    while begin < depth:
        sums = magnitudes[begin:].cumsum(0).max(1, initial=0)
        count = max(int(np.searchsorted(LARGEST * sums, EXACT, "right")), 1)
        if begin + count < depth and count > _TERMS:
            count -= count % _TERMS
        begin = min(begin + count, depth)
        ends.append(begin)
    return ends or [0]


def _rows(emit: NodeEmitter, right: relax.Expr, begin: int, end: int) -> relax.Expr:
    return emit.slice(right, max(len(shape_of(right)) - 2, 0), begin, end)
