# SPDX-License-Identifier: Apache-2.0
"""Operators that change a tensor's shape or the order of its axes."""

from __future__ import annotations

import math

from tvm import relax

from ...frontend.emitter import Emitter, shape_of
from ...frontend.limits import MAX_RANK
from .layouts import relayout
from .table import operator

Sizes = tuple[int, ...]


def new_shape(emit: Emitter, shape: Sizes, wanted: Sizes, allowzero: bool) -> Sizes:
    """Return the shape that Relay's ``reshape`` gives to a tensor.

    0 keeps the next size, -1 is inferred, -2 keeps all remaining sizes, -3 multiplies the next two,
    and -4 splits the next one into the two sizes that follow.

    Parameters
    ----------
    emit : Emitter
        The emitter.
    shape : tuple of int
        The shape of the tensor.
    wanted : tuple of int
        The attribute ``newshape``.
    allowzero : bool
        Whether 0 is a size.

    Raises
    ------
    RelayError
        If the new shape does not fit.
    """
    rest, result = list(shape), []
    codes = list(wanted)
    while codes:
        code = codes.pop(0)
        if code == -2:
            result += rest
            rest.clear()
        elif code == -3:
            result.append(_next(emit, rest) * _next(emit, rest))
        elif code == -4:
            result += _divided(emit, _next(emit, rest), codes)
        elif code == 0 and not allowzero:
            result.append(_next(emit, rest))
        else:
            result.append(code)
            del rest[:1]
    return _completed(emit, shape, result, wanted)


def _next(emit: Emitter, rest: list[int]) -> int:
    if not rest:
        raise emit.error("has a new shape that asks for more axes than there are.")
    return rest.pop(0)


def _divided(emit: Emitter, size: int, codes: list[int]) -> list[int]:
    """Consume the two codes after ``-4``, and return the parts of ``size``."""
    if len(codes) < 2 or codes[:2] == [-1, -1]:
        raise emit.error("has a new shape with -4, which needs two sizes behind it.")
    parts = [codes.pop(0), codes.pop(0)]
    if -1 in parts:
        other = max(parts[1 - parts.index(-1)], 1)
        parts[parts.index(-1)] = size // other
    return parts


def _completed(emit: Emitter, shape: Sizes, sizes: list[int], wanted: Sizes) -> Sizes:
    """Return ``sizes`` with -1 replaced."""
    count, known = math.prod(shape), math.prod(size for size in sizes if size != -1)
    if sizes.count(-1) == 1 and known > 0:
        sizes = [count // known if size == -1 else size for size in sizes]
    if min(sizes, default=0) < 0 or math.prod(sizes) != count:
        raise emit.error(f"cannot give shape {list(wanted)} to a tensor of {list(shape)}.")
    return tuple(sizes)


@operator("reshape")
def reshape(
    emit: Emitter, data: relax.Expr, *, newshape: Sizes, allowzero: bool = False
) -> relax.Expr:
    return emit.reshape(data, new_shape(emit, shape_of(data), newshape, bool(allowzero)))


@operator("contrib_reverse_reshape")
def reverse_reshape(
    emit: Emitter, data: relax.Expr, *, newshape: Sizes, allowzero: bool = False
) -> relax.Expr:
    """Reshape with sizes matched from the back."""
    shape = new_shape(emit, shape_of(data)[::-1], newshape[::-1], bool(allowzero))
    return emit.reshape(data, shape[::-1])


@operator("reshape_like")
def reshape_like(
    emit: Emitter,
    data: relax.Expr,
    like: relax.Expr,
    *,
    lhs_begin: int = 0,
    lhs_end: int | None = None,
    rhs_begin: int = 0,
    rhs_end: int | None = None,
) -> relax.Expr:
    """Replace some axes of ``data`` by some of ``like``."""
    shape = list(shape_of(data))
    begin = lhs_begin % len(shape) if lhs_begin < 0 else lhs_begin
    end = len(shape) if lhs_end is None else lhs_end
    shape[begin : end + len(shape) if end < 0 else end] = shape_of(like)[rhs_begin:rhs_end]
    return emit.reshape(data, shape)


@operator("nn.batch_flatten")
def batch_flatten(emit: Emitter, data: relax.Expr) -> relax.Expr:
    shape = shape_of(data)
    return emit.reshape(data, (shape[0], math.prod(shape[1:])))


@operator("expand_dims")
def expand_dims(emit: Emitter, data: relax.Expr, *, axis: int, num_newaxis: int = 1) -> relax.Expr:
    shape = shape_of(data)
    at = emit.axis(axis, len(shape) + 1)
    if not 0 <= num_newaxis <= MAX_RANK - len(shape):
        raise emit.error(f"has num_newaxis={num_newaxis}; a tensor has at most {MAX_RANK} axes.")
    return emit.reshape(data, (*shape[:at], *[1] * num_newaxis, *shape[at:]))


@operator("squeeze")
def squeeze(emit: Emitter, data: relax.Expr, *, axis: int | Sizes | None = None) -> relax.Expr:
    shape = shape_of(data)
    if axis is None:
        return emit.reshape(data, [size for size in shape if size != 1])
    given = axis if isinstance(axis, tuple) else (axis,)
    axes = [emit.axis(i, len(shape)) for i in given]
    if any(shape[i] != 1 for i in axes):
        raise emit.error(f"squeezes the axes {list(given)} of {list(shape)}, which are not all 1.")
    return emit.reshape(data, [size for i, size in enumerate(shape) if i not in axes])


@operator("transpose")
def transpose(emit: Emitter, data: relax.Expr, *, axes: Sizes | None = None) -> relax.Expr:
    ndim = len(shape_of(data))
    order = [emit.axis(i, ndim) for i in axes] if axes else [*range(ndim)][::-1]
    return emit.transpose(data, order)


@operator("layout_transform")
def layout_transform(
    emit: Emitter, data: relax.Expr, *, src_layout: str, dst_layout: str
) -> relax.Expr:
    return relayout(emit, data, src_layout, dst_layout)


@operator("broadcast_to")
def broadcast_to(
    emit: Emitter, data: relax.Expr, *, shape: Sizes, dtype: str | None = None
) -> relax.Expr:
    return emit(relax.op.broadcast_to(data, shape))


@operator("broadcast_to_like")
def broadcast_to_like(emit: Emitter, data: relax.Expr, like: relax.Expr) -> relax.Expr:
    return emit(relax.op.broadcast_to(data, shape_of(like)))


@operator("collapse_sum_like")
def collapse_sum_like(emit: Emitter, data: relax.Expr, like: relax.Expr) -> relax.Expr:
    return emit(relax.op.collapse_sum_to(data, shape_of(like)))


@operator("collapse_sum_to")
def collapse_sum_to(
    emit: Emitter,
    data: relax.Expr,
    target: relax.Expr,
    *,
    shape: Sizes,
    dtype: str | None = None,
) -> relax.Expr:
    """Sum over broadcast axes; the shape is both an argument and an attribute."""
    return emit(relax.op.collapse_sum_to(data, shape))


@operator("nn.depth_to_space")
def depth_to_space(
    emit: Emitter, data: relax.Expr, *, block_size: int, layout: str = "NCHW", mode: str = "DCR"
) -> relax.Expr:
    """Move channels to pixels; the block is before (DCR) or behind (CRD) the channels."""
    data = relayout(emit, data, layout, "NCHW")
    n, c, h, w = shape_of(data)
    b, rest = block_size, c // block_size**2
    if mode == "DCR":
        shape, order = (n, b, b, rest, h, w), (0, 3, 4, 1, 5, 2)
    elif mode == "CRD":
        shape, order = (n, rest, b, b, h, w), (0, 1, 4, 2, 5, 3)
    else:
        raise emit.error(f"has mode {mode!r}, which is neither DCR nor CRD.")
    moved = emit.transpose(emit.reshape(data, shape), order)
    return relayout(emit, emit.reshape(moved, (n, rest, h * b, w * b)), "NCHW", layout)


@operator("nn.space_to_depth")
def space_to_depth(
    emit: Emitter, data: relax.Expr, *, block_size: int, layout: str = "NCHW", mode: str = "DCR"
) -> relax.Expr:
    """Move pixels to channels; the attribute ``mode`` has no effect."""
    data = relayout(emit, data, layout, "NCHW")
    n, c, h, w = shape_of(data)
    b = block_size
    parts = emit.reshape(data, (n, c, h // b, b, w // b, b))
    moved = emit.transpose(parts, (0, 3, 5, 1, 2, 4))
    return relayout(emit, emit.reshape(moved, (n, c * b * b, h // b, w // b)), "NCHW", layout)
