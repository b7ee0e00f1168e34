# SPDX-License-Identifier: Apache-2.0
"""Operations that only move elements, such as reshapes, transpositions, slices, and their chains.

Each operation is a view of its operand, and so is a chain. NumPy computes the strides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from tvm import relax, tirx

from ..ops.strides import Strides
from ..relax_ir.expressions import held_shape, is_float32, known_shape, op_name

_RESHAPES = frozenset({"reshape", "flatten", "expand_dims", "squeeze"})


@dataclass(frozen=True)
class Rearrangement:
    """The view that a chain of data movements makes of one tensor.

    Attributes
    ----------
    shape : tuple of int
        The shape of the result.
    _memory, _view : numpy.ndarray
        A placeholder of the tensor with one byte per element, and the result as a view of it. If
        the last operations reshape a non-contiguous tensor, the view is the one before them.
    """

    shape: tuple[int, ...]
    _memory: np.ndarray
    _view: np.ndarray

    @staticmethod
    def of(shape: tuple[int, ...]) -> Rearrangement:
        """Return the identity view of a tensor."""
        memory = np.empty(shape, "int8")
        return Rearrangement(shape, memory, memory)

    def then(self, call: relax.Expr) -> Rearrangement | None:
        """Append an operation; return None if the chain is then no longer one view."""
        if not moves(call):
            return None
        name, shape = op_name(call), held_shape(call)
        if name in _RESHAPES:
            return self.reshaped(shape)
        if self.shape != self.stored:
            return None  # the result is already stored in the view's order
        view = _VIEWS[name](self._view, call)
        return replace(self, shape=shape, _view=view) if view.shape == shape else None

    def reshaped(self, shape: tuple[int, ...]) -> Rearrangement:
        view = self._view.reshape(shape)
        kept = view if np.may_share_memory(view, self._memory) else self._view
        return replace(self, shape=shape, _view=kept)

    def broadcast(self, shape: tuple[int, ...]) -> Rearrangement:
        return replace(self, shape=shape, _view=np.broadcast_to(self._view, shape))

    def part(self, axis: int, begin: int, end: int) -> Rearrangement:
        """Slice the view from ``begin`` to ``end`` along ``axis``.

        Parameters
        ----------
        axis : int
            The axis.
        begin, end : int
            The half-open range of positions.
        """
        view = self._view[(slice(None),) * axis + (slice(begin, end),)]
        return replace(self, shape=view.shape, _view=view)

    @property
    def stored(self) -> tuple[int, ...]:
        """The shape in which the result lies in memory, with the axes of :attr:`strides`."""
        return self._view.shape

    @property
    def strides(self) -> Strides:
        address, origin = (a.__array_interface__["data"][0] for a in (self._view, self._memory))
        return Strides(self._memory.size, self._view.strides, address - origin)

    @property
    def only_reshapes(self) -> bool:
        """Return whether all elements keep their positions in memory."""
        return self._view.flags.c_contiguous and self._view.size == self._memory.size


def moves(expr: relax.Expr) -> bool:
    """Return whether ``expr`` only moves elements of a float32 tensor of known shape."""
    name = op_name(expr)
    if name not in _RESHAPES and name not in _VIEWS:
        return False
    shapes = [known_shape(e) for e in (expr, expr.args[0])]
    return is_float32(expr) and all(shape and 0 not in shape for shape in shapes)


def _transpose(view: np.ndarray, call: relax.Call) -> np.ndarray:
    axes = call.attrs.axes
    return view.transpose(None if axes is None else [int(axis) for axis in axes])


def _broadcast(view: np.ndarray, call: relax.Call) -> np.ndarray:
    return np.broadcast_to(view, held_shape(call))


def _slice(view: np.ndarray, call: relax.Call) -> np.ndarray:
    numbers = [
        [int(field) if isinstance(field, tirx.IntImm) else None for field in argument.fields]
        if isinstance(argument, relax.Tuple)
        else [None]
        for argument in call.args[1:]
    ]
    columns = [[number for number in column if number is not None] for column in numbers]
    if list(map(len, columns)) != list(map(len, numbers)):
        return np.empty(0)  # matches no shape
    axes, begins, ends = columns[:3]
    steps = columns[3] if len(columns) > 3 else [1] * len(axes)
    slices = [slice(None)] * view.ndim
    for axis, *bounds in zip(axes, begins, ends, steps, strict=True):
        slices[axis] = slice(*bounds)
    return view[tuple(slices)]


_VIEWS: dict[str, Callable[[np.ndarray, relax.Call], np.ndarray]] = {
    "permute_dims": _transpose,
    "broadcast_to": _broadcast,
    "strided_slice": _slice,
}
