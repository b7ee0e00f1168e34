# SPDX-License-Identifier: Apache-2.0
"""Operands whose sizes are equal, but written in different ways, which Relax cannot compare."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tvm
import tvm_ffi
from tvm import relax

from ..sizes.arithmetic import broadcast, require_equal
from ..sizes.size import AnyShape, AnySize, Size, is_open, known_equal
from .size_requirements import require_fitting, sizes_of

_BROADCASTING = {
    "relax." + name
    for name in (
        "add", "bitwise_and", "bitwise_or", "bitwise_xor", "divide", "equal", "floor_divide",
        "floor_mod", "greater", "greater_equal", "left_shift", "less", "less_equal", "logical_and",
        "logical_or", "logical_xor", "maximum", "minimum", "mod", "multiply", "not_equal", "power",
        "right_shift", "subtract", "where",
    )
}  # fmt: skip

Bind = Callable[[relax.Expr], relax.Expr]


def fitted(call: relax.Expr, bind: Bind) -> relax.Expr:
    """Return a call whose operands fit by what Relax sees of their sizes.

    Parameters
    ----------
    call : relax.Expr
        Of any operator; only one that broadcasts, concatenates or multiplies matrices is changed.
    bind : callable
        Returns the variable of an operand that is computed before.

    Raises
    ------
    ValueError
        If the operands do not fit.
    """
    if not (isinstance(call, relax.Call) and isinstance(call.op, tvm.ir.Op)):
        return call
    if not _reads_open(call):
        return call
    args = [bind(x) if isinstance(x, relax.Call) else x for x in call.args]
    if not all(map(_is_same, args, call.args)):
        call = relax.Call(call.op, args, call.attrs, call.ty_args)
    require_fitting(call)
    if call.op.name == "relax.concat":
        args = [relax.Tuple(_of_one_width(args[0].fields, int(call.attrs.axis), bind))]
    elif call.op.name in _BROADCASTING:
        args = _of_one_shape(args, bind)
    elif call.op.name == "relax.matmul":
        args = _of_one_depth(args[0], args[1], bind)
    else:
        return call
    return relax.Call(call.op, args, call.attrs, call.ty_args)


def _reads_open(x: relax.Expr) -> bool:
    if isinstance(x, relax.Call):
        return any(map(_reads_open, x.args))
    if isinstance(x, relax.Tuple):
        return any(map(_reads_open, x.fields))
    return is_open(sizes_of(x) or ())


def _is_same(a: relax.Expr, b: relax.Expr) -> bool:
    return bool(a.same_as(b))


def _of_one_shape(operands: Sequence[relax.Expr], bind: Bind) -> list[relax.Expr]:
    shapes = [sizes_of(operand) for operand in operands]
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes):
        return list(operands)
    whole = broadcast(*known)
    pairs = zip(operands, known, strict=True)
    return [_reshaped(x, _like(shape, whole), bind) for x, shape in pairs]


def _of_one_width(operands: Sequence[relax.Expr], axis: int, bind: Bind) -> list[relax.Expr]:
    """Return tensors that differ along one axis only."""
    first = sizes_of(operands[0])
    shapes = [sizes_of(operand) for operand in operands]
    if first is None or any(shape is None or len(shape) != len(first) for shape in shapes):
        return list(operands)
    found = []
    for x, shape in zip(operands, shapes, strict=True):
        assert shape is not None, "it is checked above"
        wanted = [*first]
        wanted[axis] = shape[axis]
        if not all(map(require_equal, shape, wanted)):
            raise ValueError(f"tensors of {list(first)} and {list(shape)} have no common width")
        found.append(_reshaped(x, tuple(wanted), bind))
    return found


def _of_one_depth(a: relax.Expr, b: relax.Expr, bind: Bind) -> list[relax.Expr]:
    """Return matrices whose batches, and the axes that are summed, are written alike."""
    one, other = sizes_of(a), sizes_of(b)
    if one is None or other is None or not one or not other:
        return [a, b]
    whole = broadcast(one[:-2], other[:-2])
    left = (*_like(one[:-2], whole), *one[-2:])
    columns = other[-1:] if len(other) > 1 else ()
    right = (*_like(other[:-2], whole), one[-1], *columns)
    return [_reshaped(a, left, bind), _reshaped(b, right, bind)]


def _reshaped(x: relax.Expr, wanted: AnyShape, bind: Bind) -> relax.Expr:
    """Return a tensor whose sizes, which are the same, are written in another way."""
    own = sizes_of(x)
    assert own is not None, "a converted tensor has a shape"
    if all(map(_is_written, own, wanted)):
        return x
    return bind(relax.op.reshape(x, wanted))


def _like(shape: AnyShape, whole: AnyShape) -> AnyShape:
    """Return a shape with the sizes that it is broadcast to, but for axes of one element."""
    ends = whole[len(whole) - len(shape) :]
    return tuple(1 if known_equal(size, 1) else end for size, end in zip(shape, ends, strict=True))


def _is_written(a: AnySize, b: AnySize) -> bool:
    if isinstance(a, Size) and isinstance(b, Size):
        return bool(tvm_ffi.structural_equal(a.expr, b.expr))
    return not isinstance(a, Size) and not isinstance(b, Size)
