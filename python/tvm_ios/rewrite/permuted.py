# SPDX-License-Identifier: Apache-2.0
"""Operators of permuted tensors, as permutations of what they compute of the tensors themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from ..graph.recognise import ELEMENTWISE
from ..relax_ir.constants import constant_array
from ..relax_ir.expressions import held_shape, is_float32, known_shape, op_name
from ..sizes.size import AnyShape, hint_of, known_equal

Axes = tuple[int, ...]

_ROWS = 1_000_003
"""The rows of a batch that stands for all: a prime number, which is no other size."""


@dataclass(frozen=True)
class Permuted:
    """A tensor that is a permutation of another one, by the axes of that."""

    source: relax.Expr
    axes: Axes

    @property
    def shape(self) -> AnyShape:
        whole = held_shape(self.source)
        return tuple(whole[axis] for axis in self.axes)

    @property
    def rows(self) -> Axes:
        """The axes that may be a batch: the first one, before and after."""
        return (0, self.axes[0]) if self.axes else ()

    @property
    def stays(self) -> bool:
        """Whether all elements keep their places in memory, also those of a larger batch.

        A network in two batches stays one network, whose rows are then known to be apart.
        """
        sizes, rows = held_shape(self.source), self.rows
        moved = [axis for axis in self.axes if axis in rows or not known_equal(sizes[axis], 1)]
        return moved == sorted(moved)

    @property
    def elements(self) -> int:
        """How many elements are moved; open sizes count as in the example."""
        return 0 if self.stays else math.prod(map(hint_of, self.shape))

    def permuted(self, axes: Sequence[int]) -> Permuted:
        return Permuted(self.source, tuple(self.axes[axis] for axis in axes))

    def whole(self) -> relax.Expr:
        """Return the tensor as an expression; the source itself if that is the same."""
        if self.axes == tuple(range(len(self.axes))):
            return self.source
        if self.stays:
            return relax.op.reshape(self.source, self.shape)
        return relax.op.permute_dims(self.source, self.axes)


Align = Callable[[relax.Expr, AnyShape], "relax.Expr | None"]
"""Returns an operand in the order of the first one's source, to broadcast to a shape."""

Rule = Callable[[relax.Call, Permuted, Align], "Permuted | None"]
"""Returns what a call computes of its first permuted operand; None if it depends on the order."""


def inverse(axes: Axes) -> Axes:
    return tuple(axes.index(axis) for axis in range(len(axes)))


def axes_of(call: relax.Call) -> Axes:
    """Return the axes of a permutation."""
    rank = len(held_shape(call))
    axes = call.attrs.axes
    return tuple(range(rank))[::-1] if axes is None else tuple(int(a) % rank for a in axes)


def _elementwise(call: relax.Call, data: Permuted, align: Align) -> Permuted | None:
    shape = held_shape(call)
    if len(shape) != len(data.axes):
        return None
    operands = [align(operand, shape) for operand in call.args]
    known = [operand for operand in operands if operand is not None]
    if len(known) != len(operands):
        return None
    return Permuted(relax.Call(call.op, known, call.attrs), data.axes)


def _reduced(call: relax.Call, data: Permuted, _align: Align) -> Permuted | None:
    """Return a reduction of the same axes of the source."""
    rank, given = len(data.axes), call.attrs.axis
    axes = sorted(data.axes[int(a) % rank] for a in (range(rank) if given is None else given))
    return _without_axes(call, data, axes, axes)


def _place(call: relax.Call, data: Permuted, _align: Align) -> Permuted | None:
    """Return the places of extremes along the same axis."""
    if call.attrs.axis is None:
        return None
    axis = data.axes[int(call.attrs.axis) % len(data.axes)]
    return _without_axes(call, data, axis, [axis])


def _without_axes(
    call: relax.Call, data: Permuted, where: int | list[int], removed: Sequence[int]
) -> Permuted:
    """Return a reduction of the source by the operator of a call."""
    keeps = bool(call.attrs.keepdims)
    reduced = getattr(relax.op, op_name(call))(data.source, where, keeps)
    return Permuted(reduced, data.axes if keeps else _without(data.axes, removed))


def _without(axes: Axes, removed: Sequence[int]) -> Axes:
    """Return the order of axes of which some are removed."""
    kept = [axis for axis in axes if axis not in removed]
    return tuple(sorted(kept).index(axis) for axis in kept)


def _along(call: relax.Call, data: Permuted, _align: Align) -> Permuted | None:
    """Return a softmax along the same axis."""
    axis = data.axes[int(call.attrs.axis) % len(data.axes)]
    build = getattr(relax.op.nn, op_name(call).removeprefix("nn."))
    return Permuted(build(data.source, axis), data.axes)


def _normalised(call: relax.Call, data: Permuted, _align: Align) -> Permuted | None:
    """Return a layer normalisation of the channels of images, whose channels come first."""
    axes, attrs = [int(axis) % len(data.axes) for axis in call.attrs.axes], call.attrs
    factors = call.args[1:]
    if data.axes != _CHANNELS_LAST or axes != [3] or not is_float32(call):
        return None
    if not _are_constant(factors):
        return None
    norm = relax.op.nn.layer_norm(
        data.source, *factors, [1], attrs.epsilon, attrs.center, attrs.scale
    )
    return Permuted(norm, data.axes)


def _prelu(call: relax.Call, data: Permuted, _align: Align) -> Permuted | None:
    if not _are_constant(call.args[1:]):
        return None
    axis = data.axes[int(call.attrs.axis) % len(data.axes)]
    return Permuted(relax.op.nn.prelu(data.source, call.args[1], axis), data.axes)


def _are_constant(factors: Sequence[relax.Expr]) -> bool:
    return all(constant_array(factor) is not None for factor in factors)


def _pad(call: relax.Call, data: Permuted, _align: Align) -> Permuted | None:
    widths = np.array([int(width) for width in call.attrs.pad_width]).reshape(-1, 2)
    own = widths[list(inverse(data.axes))].reshape(-1).tolist()
    attrs = call.attrs
    return Permuted(
        relax.op.nn.pad(data.source, own, attrs.pad_mode, float(attrs.pad_value)), data.axes
    )


def _sliced(call: relax.Call, data: Permuted, _align: Align) -> Permuted | None:
    rank, (given, *bounds) = len(data.axes), call.args[1:]
    if not isinstance(given, relax.Tuple):
        return None
    axes = [data.axes[int(axis.value) % rank] for axis in given.fields]
    inbound = bool(call.attrs.assume_inbound)
    slices = relax.op.strided_slice(data.source, axes, *bounds, assume_inbound=inbound)
    return Permuted(slices, data.axes)


def _split(call: relax.Call, data: Permuted, _align: Align) -> Permuted | None:
    parts: Any = call.attrs.indices_or_sections
    parts = [int(p) for p in parts] if isinstance(parts, Sequence) else int(parts)
    axis = data.axes[int(call.attrs.axis) % len(data.axes)]
    return Permuted(relax.op.split(data.source, parts, axis), data.axes)


def _concat(call: relax.Call, data: Permuted, align: Align) -> Permuted | None:
    parts, axis = call.args[0], call.attrs.axis
    if axis is None or not isinstance(parts, relax.Tuple):
        return None
    aligned = [align(part, held_shape(part)) for part in parts.fields]
    known = [part for part in aligned if part is not None]
    if len(known) != len(aligned):
        return None
    place = data.axes[int(axis) % len(data.axes)]
    return Permuted(relax.op.concat(known, place), data.axes)


def _reshaped(call: relax.Call, data: Permuted, _align: Align) -> Permuted | None:
    """Return a reshape that divides axes, or merges those that are neighbours in the source.

    So it must be for any batch: each axis of one element, which may be that of the rows, is taken
    for a larger one, too.
    """
    shape, sizes, wanted = known_shape(call), held_shape(data.source), held_shape(call)
    if shape is None:
        return None
    single = [axis for axis, size in enumerate(sizes) if known_equal(size, 1)]
    orders = [_order_of_rows(axis, sizes, data.axes, wanted) for axis in single]
    orders = orders or [_order(sizes, data.axes, wanted)]
    found = orders[0]
    if found is None or None in orders:
        return None
    source = relax.op.reshape(data.source, [shape[axis] for axis in found])
    return Permuted(source, inverse(tuple(found)))


def _order_of_rows(axis: int, sizes: AnyShape, axes: Axes, wanted: AnyShape) -> list[int] | None:
    """Return the axes of a reshape if an axis of the source were longer, as some of the result."""
    longer = _multiplied(sizes, axis)
    orders = (_order(longer, axes, _multiplied(wanted, place)) for place in range(len(wanted)))
    return next((order for order in orders if order is not None), None)


def _multiplied(shape: AnyShape, axis: int) -> AnyShape:
    return (*shape[:axis], shape[axis] * _ROWS, *shape[axis + 1 :])


def _order(sizes: AnyShape, axes: Axes, wanted: AnyShape) -> list[int] | None:
    """Return the axes of a reshape of a permuted tensor in the order of the source, or None."""
    groups = _groups(tuple(sizes[axis] for axis in axes), wanted)
    if groups is None:
        return None
    order = []
    for before, after in groups:
        places = [axes[axis] for axis in before]
        between = sizes[places[0] : places[-1] + 1] if places else ()
        if places != sorted(places) or math.prod(between) != math.prod(sizes[p] for p in places):
            return None
        order.append((places[0] if places else -1, after))
    return [axis for _, after in sorted(order) for axis in after]


def _groups(shape: AnyShape, wanted: AnyShape) -> list[tuple[list[int], list[int]]] | None:
    """Return which axes become which in a reshape; None if the sizes are open, or there are none.

    Axes of one element of the first shape belong to no group, and first ones of the wanted shape to
    one of no axes.
    """
    if not all(isinstance(n, int) and n for n in (*shape, *wanted)):
        return None
    axes, places = [i for i, n in enumerate(shape) if n != 1], list(range(len(wanted)))
    first = next((i for i, n in enumerate(wanted) if n != 1), len(wanted))
    groups: list[tuple[list[int], list[int]]] = [([], places[:first])]
    del places[:first]
    while axes or places:
        before, after = ([axes.pop(0)] if axes else []), ([places.pop(0)] if places else [])
        while (have := _product(shape, before)) != (want := _product(wanted, after)):
            rest, group = (axes, before) if have < want else (places, after)
            group.append(rest.pop(0))
        while places and wanted[places[0]] == 1:
            after.append(places.pop(0))
        groups.append((before, after))
    return groups


def _product(shape: AnyShape, axes: Sequence[int]) -> int:
    return math.prod(hint_of(shape[axis]) for axis in axes)


OF_EACH = frozenset({
    *ELEMENTWISE,
    *("astype", "ceil", "floor", "isnan", "isinf", "isfinite", "sign", "tan"),
    *("power", "mod", "floor_divide", "nn.softplus", "logical_not", "where"),
    *("equal", "not_equal", "greater", "greater_equal", "less", "less_equal"),
    *("logical_and", "logical_or", "logical_xor"),
})  # fmt: skip

_CHANNELS_LAST = (0, 2, 3, 1)
RESHAPES = ("reshape", "squeeze", "expand_dims")

RULES: dict[str, Rule] = {
    **dict.fromkeys(OF_EACH, _elementwise),
    **dict.fromkeys(("mean", "sum", "max", "min", "prod", "variance"), _reduced),
    **dict.fromkeys(("argmax", "argmin"), _place),
    **dict.fromkeys(("nn.softmax", "nn.log_softmax"), _along),
    **dict.fromkeys(RESHAPES, _reshaped),
    "concat": _concat,
    "nn.layer_norm": _normalised,
    "nn.pad": _pad,
    "nn.prelu": _prelu,
    "split": _split,
    "strided_slice": _sliced,
}
"""By the operator; the result of ``split`` is a tuple of permuted tensors."""
