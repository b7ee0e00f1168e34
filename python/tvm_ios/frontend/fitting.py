# SPDX-License-Identifier: Apache-2.0
"""Operands whose sizes are equal, but written in different ways, which Relax cannot compare."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tvm
import tvm_ffi
from tvm import relax

from ..ops.size import AnyShape, AnySize, Size, broadcast, is_open, known_equal, size_of

_BROADCASTING = {
    "relax." + name
    for name in (
        "add", "bitwise_and", "bitwise_or", "bitwise_xor", "divide", "equal", "floor_divide",
        "floor_mod", "greater", "greater_equal", "left_shift", "less", "less_equal", "logical_and",
        "logical_or", "logical_xor", "maximum", "minimum", "mod", "multiply", "not_equal", "power",
        "right_shift", "subtract", "where",
    )
}  # fmt: skip

Reshape = Callable[[relax.Expr, Sequence[AnySize]], relax.Expr]


def fitted(call: relax.Expr, reshape: Reshape) -> relax.Expr:
    """Return a call whose operands broadcast by what Relax sees of their sizes.

    Parameters
    ----------
    call : relax.Expr
        Of any operator; only one that broadcasts is changed.
    reshape : callable
        Returns a tensor with another shape.

    Raises
    ------
    ValueError
        If the operands do not broadcast.
    """
    if not (isinstance(call, relax.Call) and isinstance(call.op, tvm.ir.Op)):
        return call
    if call.op.name not in _BROADCASTING:
        return call
    shapes = [_shape(operand) for operand in call.args]
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes) or not any(map(is_open, known)):
        return call
    whole = broadcast(*known)
    pairs = zip(call.args, known, strict=True)
    operands = [reshaped(x, _like(shape, whole), reshape) for x, shape in pairs]
    return relax.Call(call.op, operands, call.attrs, call.ty_args)


def reshaped(x: relax.Expr, wanted: AnyShape, reshape: Reshape) -> relax.Expr:
    """Return a tensor whose sizes are written in another way."""
    own = _shape(x)
    assert own is not None, "a converted tensor has a shape"
    if all(map(_is_written, own, wanted)):
        return x
    return reshape(x, wanted)


def _like(shape: AnyShape, whole: AnyShape) -> AnyShape:
    """Return a shape with the sizes that it is broadcast to, but for axes of one element."""
    ends = whole[len(whole) - len(shape) :]
    return tuple(1 if known_equal(size, 1) else end for size, end in zip(shape, ends, strict=True))


def _is_written(a: AnySize, b: AnySize) -> bool:
    if isinstance(a, Size) and isinstance(b, Size):
        return bool(tvm_ffi.structural_equal(a.expr, b.expr))
    return not isinstance(a, Size) and not isinstance(b, Size)


def _shape(x: relax.Expr) -> AnyShape | None:
    type_ = getattr(x, "ty", None)
    shape = getattr(type_, "shape", None)
    if not isinstance(shape, relax.ShapeExpr):
        return None
    return tuple(map(size_of, shape.values))
