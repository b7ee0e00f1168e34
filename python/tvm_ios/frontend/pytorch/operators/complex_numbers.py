# SPDX-License-Identifier: Apache-2.0
"""Complex numbers inside of a network, each as a pair on a last axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax

from ...emitter import constant, dtype_of, shape_of
from ...onnx.operators.formula import Term
from ...onnx.operators.parts import concat, picked
from ..node_emitter import AtenEmitter, name_of_dtype
from .index import index
from .parts import constant_pad, replaced, roll, slice_
from .signs import hypotenuse
from .table import complex_operator


def parts_of(emit: AtenEmitter, pairs: relax.Expr) -> tuple[Term, Term]:
    """Return the real and the imaginary parts of complex numbers."""
    real, imaginary = (Term(emit, picked(emit, pairs, i, -1)) for i in range(2))
    return real, imaginary


def paired(emit: AtenEmitter, real: Term, imaginary: Term) -> relax.Expr:
    """Return complex numbers of parts, which are broadcast to the shape of the result."""
    shape = emit.shape
    halves = [emit.broadcast(part.expr, shape) for part in (real, imaginary)]
    return emit(relax.op.stack(halves, len(shape)))


def _type_of_parts(emit: AtenEmitter) -> str:
    """Return the type of the parts of the result, or of the result where it is real."""
    return name_of_dtype(emit.result().dtype.to_real(), emit.where)


def _operand(emit: AtenEmitter, number: int, value: Any) -> tuple[Term, Term | None]:
    """Return the parts of an argument; real numbers have no imaginary one."""
    dtype = _type_of_parts(emit)
    if isinstance(value, relax.Expr):
        if emit.argument(number).is_complex():
            real, imaginary = parts_of(emit, value)
            return real.to(dtype), imaginary.to(dtype)
        return Term(emit, emit.operand(value, dtype)), None
    real = Term(emit, relax.const(complex(value).real, dtype))
    if not isinstance(value, complex):
        return real, None
    return real, Term(emit, relax.const(value.imag, dtype))


@complex_operator("view_as_real.default", "view_as_complex.default")
@complex_operator("alias.default", "clone.default", "detach.default", "lift_fresh_copy.default")
@complex_operator("resolve_conj.default", "contiguous.default")
def same(emit: AtenEmitter, data: relax.Expr) -> relax.Expr:
    return data


@complex_operator("_to_copy.default", "prims.convert_element_type.default")
def to_copy(emit: AtenEmitter, data: relax.Expr, *_: Any) -> relax.Expr:
    """Convert real numbers to complex ones, or between types of these."""
    if not emit.result().is_complex():
        raise emit.error("drops imaginary parts, which is not supported.")
    real, imaginary = _operand(emit, 0, data)
    return paired(emit, real, real * 0 if imaginary is None else imaginary)


@complex_operator("complex.default")
def of_parts(emit: AtenEmitter, real: relax.Expr, imaginary: relax.Expr) -> relax.Expr:
    return paired(emit, Term(emit, real), Term(emit, imaginary))


@complex_operator("polar.default")
def polar(emit: AtenEmitter, size: relax.Expr, angle: relax.Expr) -> relax.Expr:
    length, turned = Term(emit, size), Term(emit, angle)
    return paired(emit, length * turned.of(relax.op.cos), length * turned.of(relax.op.sin))


@complex_operator("_conj.default", "_conj_physical.default", "conj_physical.default")
def conjugate(emit: AtenEmitter, data: relax.Expr) -> relax.Expr:
    signs = constant(np.array([1, -1], dtype_of(data)))
    return emit(relax.op.multiply(data, signs))


@complex_operator("neg.default")
def negative(emit: AtenEmitter, data: relax.Expr) -> relax.Expr:
    return emit(relax.op.negative(data))


@complex_operator("abs.default")
def size(emit: AtenEmitter, data: relax.Expr) -> relax.Expr:
    return hypotenuse(*parts_of(emit, data)).expr


@complex_operator("angle.default")
def angle(emit: AtenEmitter, data: relax.Expr) -> relax.Expr:
    real, imaginary = parts_of(emit, data)
    return emit(relax.op.atan2(imaginary.expr, real.expr))


@complex_operator("mul.Tensor", "mul.Scalar")
def multiply(emit: AtenEmitter, left: Any, right: Any) -> relax.Expr:
    (a, b), (c, d) = _operand(emit, 0, left), _operand(emit, 1, right)
    if b is None and d is not None:
        a, b, c, d = c, d, a, None
    assert b is not None
    if d is None:
        return paired(emit, a * c, b * c)
    return paired(emit, a * c - b * d, a * d + b * c)


@complex_operator("div.Tensor", "div.Scalar")
def divide(emit: AtenEmitter, left: Any, right: Any) -> relax.Expr:
    (a, b), (c, d) = _operand(emit, 0, left), _operand(emit, 1, right)
    if b is None or d is not None:
        raise emit.error("divides by complex numbers, which is not supported.")
    return paired(emit, a / c, b / c)


@complex_operator("add.Tensor", "add.Scalar")
def add(emit: AtenEmitter, left: Any, right: Any, alpha: Any = 1) -> relax.Expr:
    return _sum(emit, left, right, alpha)


@complex_operator("sub.Tensor", "sub.Scalar")
def subtract(emit: AtenEmitter, left: Any, right: Any, alpha: Any = 1) -> relax.Expr:
    return _sum(emit, left, right, -alpha)


def _sum(emit: AtenEmitter, left: Any, right: Any, alpha: Any) -> relax.Expr:
    if isinstance(alpha, complex):
        raise emit.error("has a complex factor, which is not supported.")
    (a, b), (c, d) = _operand(emit, 0, left), _operand(emit, 1, right)
    b, d = (each if each is not None else a * 0 for each in (b, d))
    return paired(emit, a + c * alpha, b + d * alpha)


@complex_operator("mm.default", "bmm.default", "matmul.default")
def product(emit: AtenEmitter, left: relax.Expr, right: relax.Expr) -> relax.Expr:
    (a, b), (c, d) = parts_of(emit, left), parts_of(emit, right)

    def times(first: Term, second: Term) -> Term:
        return Term(emit, emit(relax.op.matmul(first.expr, second.expr)))

    return paired(emit, times(a, c) - times(b, d), times(a, d) + times(b, c))


@complex_operator("sum.default", "sum.dim_IntList")
def total(
    emit: AtenEmitter, data: relax.Expr, axes: Sequence[int] | None = None, keep: bool = False
) -> relax.Expr:
    ndim = len(shape_of(data)) - 1
    chosen = emit.axes(list(axes or range(ndim)), ndim) if ndim else []
    return emit(relax.op.sum(data, chosen, keep)) if chosen else data


@complex_operator("view.default", "reshape.default", "_unsafe_view.default", "squeeze.default")
@complex_operator("squeeze.dim", "squeeze.dims", "unsqueeze.default")
def reshaped(emit: AtenEmitter, data: relax.Expr, *_: Any) -> relax.Expr:
    return emit.reshape(data, [*emit.shape, 2])


@complex_operator("permute.default")
def permute(emit: AtenEmitter, data: relax.Expr, axes: Sequence[int]) -> relax.Expr:
    return emit.transpose(data, [*(emit.axis(axis, len(axes)) for axis in axes), len(axes)])


@complex_operator("expand.default")
def expand(emit: AtenEmitter, data: relax.Expr, _: Sequence[int], **__: Any) -> relax.Expr:
    return emit.broadcast(data, [*emit.shape, 2])


@complex_operator("cat.default")
def cat(emit: AtenEmitter, tensors: Sequence[relax.Expr], axis: int) -> relax.Expr:
    if len({dtype_of(each) for each in tensors}) > 1 or any(shape_of(x)[-1] != 2 for x in tensors):
        raise emit.error("joins complex numbers with others, which is not supported.")
    return concat(emit, *tensors, axis=emit.axis(axis, len(emit.shape)))


@complex_operator("slice.Tensor")
def part(emit: AtenEmitter, data: relax.Expr, axis: int, *bounds: Any) -> relax.Expr:
    return slice_(emit, data, emit.axis(axis, len(emit.shape)), *bounds)


@complex_operator("select.int")
def select(emit: AtenEmitter, data: relax.Expr, axis: int, place: int) -> relax.Expr:
    axis = emit.axis(axis, len(shape_of(data)) - 1)
    return picked(emit, data, place % shape_of(data)[axis], axis)


@complex_operator("roll.default")
def rolled(
    emit: AtenEmitter, data: relax.Expr, shifts: Sequence[int], axes: Sequence[int]
) -> relax.Expr:
    if not axes:
        raise emit.error("rolls all axes of complex numbers as one, which is not supported.")
    return roll(emit, data, shifts, [emit.axis(axis, len(emit.shape)) for axis in axes])


@complex_operator("index.Tensor")
def indexed(emit: AtenEmitter, data: relax.Expr, indices: Any) -> relax.Expr:
    return index(emit, data, indices)


@complex_operator("constant_pad_nd.default")
def padded(emit: AtenEmitter, data: relax.Expr, widths: Sequence[int], value: float) -> relax.Expr:
    if value != 0:
        raise emit.error(f"pads complex numbers with {value}, which is not supported.")
    return constant_pad(emit, data, [0, 0, *widths], 0)


@complex_operator("full.default", "full_like.default", "new_full.default")
def full(emit: AtenEmitter, *arguments: Any) -> relax.Expr:
    number, dtype = complex(arguments[-1]), _type_of_parts(emit)
    parts = constant(np.array([number.real, number.imag], dtype))
    return emit.broadcast(parts, [*emit.shape, 2])


@complex_operator("zeros.default", "zeros_like.default", "new_zeros.default")
def zeros(emit: AtenEmitter, *_: Any) -> relax.Expr:
    return emit.filled([*emit.shape, 2], 0, _type_of_parts(emit))


@complex_operator("copy.default")
def copy(emit: AtenEmitter, data: relax.Expr, source: relax.Expr, _: bool) -> relax.Expr:
    real, imaginary = _operand(emit, 1, source)
    return paired(emit, real, real * 0 if imaginary is None else imaginary)


@complex_operator("slice_scatter.default")
def slice_scatter(
    emit: AtenEmitter,
    data: relax.Expr,
    source: relax.Expr,
    axis: int,
    begin: int | None,
    end: int | None,
    step: int,
) -> relax.Expr:
    axis = emit.axis(axis, len(emit.shape))
    places = range(*slice(begin, end, step).indices(emit.shape[axis]))
    return replaced(emit, data, _pairs(emit, 1, source), axis, list(places))


@complex_operator("where.self", "prims.where.default")
def where(
    emit: AtenEmitter, condition: relax.Expr, chosen: relax.Expr, other: relax.Expr
) -> relax.Expr:
    sizes = [*shape_of(condition), 1]
    pairs = _pairs(emit, 1, chosen), _pairs(emit, 2, other)
    return emit(relax.op.where(emit.reshape(condition, sizes), *pairs))


def _pairs(emit: AtenEmitter, number: int, value: relax.Expr) -> relax.Expr:
    """Return an argument, which is to be complex, in the type of the result."""
    if not emit.argument(number).is_complex():
        raise emit.error("mixes real and complex numbers, which is not supported.")
    return emit.cast(value, _type_of_parts(emit))
