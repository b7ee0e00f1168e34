# SPDX-License-Identifier: Apache-2.0
"""Operations that only move elements, such as reshapes, transpositions, slices, and their chains.

Each operation is a view of its operand, and so is a chain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from tvm import relax

from ..ops.strides import Strides
from ..relax_ir.expressions import held_shape, is_float32, known_shape, op_name
from ..sizes.size import AnyShape, AnySize, hint_of, is_open, known_equal, size_of

_RESHAPES = frozenset({"reshape", "flatten", "expand_dims", "squeeze"})


@dataclass(frozen=True)
class _View:
    """Elements of a tensor: axes with sizes and strides, from an element on."""

    sizes: AnyShape
    steps: AnyShape
    offset: AnySize = 0


@dataclass(frozen=True)
class Rearrangement:
    """The view that a chain of data movements makes of one tensor.

    Attributes
    ----------
    shape : tuple of sizes
        The shape of the result.
    _size : int or Size
        The number of elements of the tensor.
    _view : _View
        The result as a view of the tensor. If the last operations reshape a non-contiguous tensor,
        the view is the one before them.
    """

    shape: AnyShape
    _size: AnySize
    _view: _View

    @staticmethod
    def of(shape: AnyShape) -> Rearrangement:
        """Return the identity view of a tensor."""
        return Rearrangement(shape, math.prod(shape), _View(shape, _contiguous(shape)))

    def then(self, call: relax.Expr) -> Rearrangement | None:
        """Append an operation; return None if the chain is then no longer one view."""
        if not moves(call):
            return None
        name, shape = op_name(call), held_shape(call)
        if name in _RESHAPES:
            return self.reshaped(shape)
        if not _same(self.shape, self.stored):
            return None  # the result is already stored in the view's order
        view = _VIEWS[name](self._view, call)
        if view is None or not _same(view.sizes, shape):
            return None
        return replace(self, shape=shape, _view=view)

    def reshaped(self, shape: AnyShape) -> Rearrangement:
        steps = _reshaped(self._view.sizes, self._view.steps, shape)
        kept = self._view if steps is None else _View(shape, steps, self._view.offset)
        return replace(self, shape=shape, _view=kept)

    def broadcast(self, shape: AnyShape) -> Rearrangement:
        return replace(self, shape=shape, _view=_broadcast_view(self._view, shape))

    def part(self, axis: int, begin: AnySize, end: AnySize) -> Rearrangement:
        """Slice the view from ``begin`` to ``end`` along ``axis``.

        Parameters
        ----------
        axis : int
            The axis.
        begin, end : int or Size
            The half-open range of positions.
        """
        view = _sliced(self._view, axis, begin, end, 1)
        return replace(self, shape=view.sizes, _view=view)

    @property
    def stored(self) -> AnyShape:
        """The shape in which the result lies in memory, with the axes of :attr:`strides`."""
        return self._view.sizes

    @property
    def strides(self) -> Strides:
        return Strides(self._size, self._view.steps, self._view.offset)

    @property
    def only_reshapes(self) -> bool:
        """Return whether all elements keep their positions in memory."""
        if not known_equal(math.prod(self.stored), self._size):
            return False
        places = zip(self.stored, self._view.steps, _contiguous(self.stored), strict=True)
        return all(known_equal(n, 1) or known_equal(a, b) for n, a, b in places)


def _contiguous(shape: Sequence[AnySize]) -> AnyShape:
    """Return the strides of a row-major tensor."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _same(a: Sequence[AnySize], b: Sequence[AnySize]) -> bool:
    return len(a) == len(b) and all(map(known_equal, a, b))


def _reshaped(
    sizes: Sequence[AnySize], steps: Sequence[AnySize], wanted: Sequence[AnySize]
) -> AnyShape | None:
    """Return the strides of a view in another shape; None if no strides have its elements.

    Axes are matched from the first on, in groups of as many elements, each of which must be
    contiguous.
    """
    axes = [(n, step) for n, step in zip(sizes, steps, strict=True) if not known_equal(n, 1)]
    places = [place for place, n in enumerate(wanted) if not known_equal(n, 1)]
    result: list[AnySize] = [0] * len(wanted)
    while axes and places:
        group, target = [axes.pop(0)], [places.pop(0)]
        while True:
            have = math.prod(n for n, _ in group)
            want = math.prod(wanted[place] for place in target)
            if known_equal(have, want):
                break
            rest: list[Any] = axes if hint_of(have) < hint_of(want) else places
            if not rest or hint_of(have) == hint_of(want):
                return None
            (group if rest is axes else target).append(rest.pop(0))
        if not all(known_equal(outer, n * inner) for (_, outer), (n, inner) in pairwise(group)):
            return None
        step = group[-1][1]
        for place in reversed(target):
            result[place] = step
            step = step * wanted[place]
    return None if axes or places else tuple(result)


def moves(expr: relax.Expr) -> bool:
    """Return whether ``expr`` only moves elements of a float32 tensor of known shape."""
    name = op_name(expr)
    if name not in _RESHAPES and name not in _VIEWS:
        return False
    shapes = [known_shape(e) for e in (expr, expr.args[0])]
    return is_float32(expr) and all(shape and 0 not in shape for shape in shapes)


def _transpose(view: _View, call: relax.Call) -> _View:
    ndim, axes = len(view.sizes), call.attrs.axes
    order = range(ndim)[::-1] if axes is None else [int(axis) % ndim for axis in axes]
    return replace(
        view,
        sizes=tuple(view.sizes[axis] for axis in order),
        steps=tuple(view.steps[axis] for axis in order),
    )


def _broadcast(view: _View, call: relax.Call) -> _View:
    return _broadcast_view(view, held_shape(call))


def _broadcast_view(view: _View, shape: AnyShape) -> _View:
    added = len(shape) - len(view.sizes)
    kept = [
        0 if known_equal(n, 1) and not known_equal(wanted, 1) else step
        for n, step, wanted in zip(view.sizes, view.steps, shape[added:], strict=True)
    ]
    return replace(view, sizes=shape, steps=(*[0] * added, *kept))


def _sliced(view: _View, axis: int, begin: AnySize, end: AnySize, step: int) -> _View:
    n = view.sizes[axis]
    if is_open((begin, end, n)):
        count = -(-(end - begin) // step)
    else:
        places = range(hint_of(n))[slice(begin, end, step)]
        begin, count = places.start, len(places)
    moved = view.offset + begin * view.steps[axis]
    return _View(
        (*view.sizes[:axis], count, *view.sizes[axis + 1 :]),
        (*view.steps[:axis], step * view.steps[axis], *view.steps[axis + 1 :]),
        moved,
    )


def _slice(view: _View, call: relax.Call) -> _View | None:
    arguments = call.args[1:]
    if not all(isinstance(argument, relax.Tuple) for argument in arguments):
        return None
    try:
        columns = [[size_of(field) for field in argument.fields] for argument in arguments]
    except TypeError:
        return None
    axes, begins, ends = columns[:3]
    steps = columns[3] if len(columns) > 3 else [1] * len(axes)
    for axis, begin, end, step in zip(axes, begins, ends, steps, strict=True):
        n = view.sizes[axis]
        if is_open((begin, end, n)) and not (step > 0 and _inside(begin, end, n)):
            return None
        view = _sliced(view, axis, begin, end, step)
    return view


def _inside(begin: AnySize, end: AnySize, size: AnySize) -> bool:
    """Return whether a range of positions counts from the begin, and lies within an axis."""
    return begin >= 0 and begin <= end and end <= size


_VIEWS: dict[str, Callable[[_View, relax.Call], _View | None]] = {
    "permute_dims": _transpose,
    "broadcast_to": _broadcast,
    "strided_slice": _slice,
}
