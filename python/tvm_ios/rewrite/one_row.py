# SPDX-License-Identifier: Apache-2.0
"""Operators over one axis between convolutions, as operators on images of one row.

Pools and normalisations of vectors have no kernel. What moves vectors between operators on images
stays among these, in their layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import tvm
from tvm import relax
from tvm.relax.expr_functor import mutator

from ..relax_ir.expressions import is_float32, is_op, known_shape, op_name
from ..relax_ir.functions import bindings_of
from .widener import RANK, ROWS, Widener

Form = Callable[[relax.Call, relax.Expr], relax.Expr | None]
"""Returns a call on the image of its first operand; None if there is none."""

_PLANE = [ROWS, ROWS + 1]  # the axes of an image beside its channels


def widen_rows(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Rewrite operators on vectors of channels to operators on images of one row."""
    return _Operators(mod, func).visit_expr(func)


@mutator
class _Operators(Widener):
    def __init__(self, mod: tvm.IRModule, func: relax.Function) -> None:
        super().__init__(mod)
        self._bound = bindings_of(func)

    def image_of(self, value: relax.Expr) -> relax.Expr | None:
        if isinstance(value, relax.TupleGetItem):
            return self._part(value)
        if not isinstance(value, relax.Call) or not is_float32(value):
            return None
        if is_op(value, "concat"):
            return self._concatenation(value)
        if is_op(value, "permute_dims"):
            return self._channel_norm(value)
        if not value.args or not _is_vector(value.args[0]) or known_shape(value) is None:
            return super().image_of(value)
        form = _ALONE.get(op_name(value))
        if form is None and self.is_image(value.args[0]):
            form = _AMONG_IMAGES.get(op_name(value))
        return form(value, self.widened(value.args[0])) if form else super().image_of(value)

    def _concatenation(self, call: relax.Call) -> relax.Expr | None:
        """Concatenate images, if one is."""
        axis, fields = call.attrs.axis, call.args[0]
        if not isinstance(fields, relax.Tuple) or axis is None or int(axis) % RANK == 0:
            return None
        if not any(map(self.is_image, fields)) or not all(map(_is_vector, fields)):
            return None
        return relax.op.concat([self.widened(field) for field in fields], _image_axis(int(axis)))

    def _part(self, item: relax.TupleGetItem) -> relax.Expr | None:
        """Slice a part of an image that is split."""
        split = self._bound.get(item.tuple_value)
        if not is_op(split, "split") or not isinstance(split.ty, relax.TupleType):
            return None
        data, axis = split.args[0], int(split.attrs.axis) % RANK
        if not self.is_image(data) or not _is_vector(data) or axis == 0:
            return None
        sizes = [(known_shape(part) or ())[axis:] for part in _parts(split)]
        if not all(size and isinstance(size[0], int) for size in sizes):
            return None
        bounds = list(accumulate((size[0] for size in sizes), initial=0))
        begin, end = bounds[item.index], bounds[item.index + 1]
        return relax.op.strided_slice(self.images[data], [_image_axis(axis)], [begin], [end])

    def _channel_norm(self, call: relax.Call) -> relax.Expr | None:
        """Normalise the channels of each element, for which they are permuted to the end."""
        norm = self._bound.get(call.args[0])
        if not is_op(norm, "nn.layer_norm"):
            return None
        rows = self._bound.get(norm.args[0])
        if not is_op(rows, "permute_dims") or not self.is_image(rows.args[0]):
            return None
        last = [int(axis) % RANK for axis in norm.attrs.axes] == [RANK - 1]
        if not last or not all(map(_swaps, (rows, call))):
            return None
        attrs, factors = norm.attrs, map(self.visit_expr, norm.args[1:])
        image = self.images[rows.args[0]]
        return relax.op.nn.layer_norm(
            image, *factors, [1], attrs.epsilon, attrs.center, attrs.scale
        )


def _is_vector(value: relax.Expr) -> bool:
    shape = known_shape(value)
    return shape is not None and len(shape) == RANK and is_float32(value)


def _parts(split: relax.Call) -> Sequence[relax.Expr]:
    return [relax.Var("part", part) for part in split.ty.fields]


def _swaps(call: relax.Call) -> bool:
    """Return whether the channels and the elements of vectors are swapped."""
    axes = [int(axis) % RANK for axis in call.attrs.axes or ()]
    return _is_vector(call.args[0]) and axes == [0, 2, 1]


def _image_axis(axis: int) -> int:
    """Return which axis of an image stands for an axis of the vectors."""
    axis %= RANK
    return axis + (axis == ROWS)


def _pool(call: relax.Call, image: relax.Expr) -> relax.Expr | None:
    attrs = call.attrs
    if attrs.layout != "NCW" or attrs.out_layout != "NCW":
        return None
    make = relax.op.nn.max_pool2d if is_op(call, "nn.max_pool1d") else relax.op.nn.avg_pool2d
    left, right = map(int, attrs.padding)
    return make(
        image,
        (1, int(attrs.pool_size[0])),
        strides=(1, int(attrs.strides[0])),
        padding=(0, left, 0, right),
        dilation=(1, int(attrs.dilation[0])),
        ceil_mode=bool(attrs.ceil_mode),
        count_include_pad=bool(attrs.count_include_pad),
    )


def _pool_to(call: relax.Call, image: relax.Expr) -> relax.Expr | None:
    """Pool to a number of elements."""
    attrs, shape = call.attrs, known_shape(call)
    if attrs.layout != "NCW" or attrs.out_layout != "NCW" or shape is None or shape[-1] != 1:
        return None
    return relax.op.nn.adaptive_avg_pool2d(image, (1, 1))


def _normalisation(call: relax.Call, image: relax.Expr) -> relax.Expr | None:
    attrs, factors = call.attrs, call.args[1:]
    if int(attrs.channel_axis) % RANK != 1 or [int(a) % RANK for a in attrs.axes] != [ROWS]:
        return None
    others = 1, _PLANE, attrs.epsilon, attrs.center, attrs.scale
    if is_op(call, "nn.instance_norm"):
        return relax.op.nn.instance_norm(image, *factors, *others)
    return relax.op.nn.group_norm(image, *factors, int(attrs.num_groups), *others)


def _slice(call: relax.Call, image: relax.Expr) -> relax.Expr | None:
    _, axes, *bounds = call.args
    kept = [_image_axis(int(axis.value)) for axis in axes]
    return None if 0 in kept else relax.op.strided_slice(image, kept, *bounds)


def _mean(call: relax.Call, image: relax.Expr) -> relax.Expr | None:
    axes = call.attrs.axis
    if axes is None or [int(axis) % RANK for axis in axes] != [ROWS]:
        return None
    return relax.op.mean(image, _PLANE, keepdims=True)


_ALONE: dict[str, Form] = {
    "nn.max_pool1d": _pool,
    "nn.avg_pool1d": _pool,
    "nn.adaptive_avg_pool1d": _pool_to,
    "nn.instance_norm": _normalisation,
    "nn.group_norm": _normalisation,
}
"""Operators that have kernels for images only."""

_AMONG_IMAGES: dict[str, Form] = {"strided_slice": _slice, "mean": _mean}
"""Operators that stay as they are unless they read an image."""
