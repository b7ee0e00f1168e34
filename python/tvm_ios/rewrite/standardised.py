# SPDX-License-Identifier: Apache-2.0
"""Tensors less their means over their standard deviations, in whatever order that is computed.

There is also the form without means: tensors over the roots of the means of their squares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import relax

from ..relax_ir.constants import scalar_constant
from ..relax_ir.expressions import held_shape, is_float32, known_shape, op_name
from ..sizes.size import AnyShape, AnySize, known_equal
from .matching import Matcher
from .polynomials import (
    ARITHMETIC,
    Monomial,
    Polynomial,
    Polynomials,
    atom,
    below,
    is_close,
    is_near,
    scaled,
)

_FAR = 8  # steps from the result to a mean
_ROOTS = {"sqrt": -1, "rsqrt": 1}
_ROOT_POWERS = {0.5: -1, -0.5: 1}
"""The power of the inverse deviation that the root of the variance is."""

_BETWEEN = ARITHMETIC | _ROOTS.keys() | {"nn.relu", "maximum", "reshape", "expand_dims"}
_SQUARES: dict[Monomial, float] = {(("x", 2),): 1.0}
_CENTRED_SQUARES = _SQUARES | {(("m", 1), ("x", 1)): -2.0, (("m", 2),): 1.0}
_VARIANCE: dict[Monomial, float] = {(("v", 1),): 1.0}
_VARIANCE_BY_SQUARES: dict[Monomial, float] = {(("q", 1),): 1.0, (("m", 2),): -1.0}
_MEAN_OF_SQUARES: dict[Monomial, float] = {(("q", 1),): 1.0}
_DATA: Monomial = (("r", 1), ("x", 1))
_MEAN: Monomial = (("m", 1), ("r", 1))


@dataclass(frozen=True)
class Standardised:
    """A standardised tensor, times a factor, and an offset added.

    Attributes
    ----------
    data : relax.Expr
    shape : shape
        That of the data, and of the result.
    axes : tuple of int
        The axes of the mean, in their order.
    epsilon : float
    factors : tuple of numpy.ndarray
        The factor and the offset, of float32, with as many axes as the data.
    centred : bool
        Whether the mean is subtracted. Else the data is divided by the root of the mean of its
        squares.
    """

    data: relax.Expr
    shape: AnyShape
    axes: tuple[int, ...]
    epsilon: float
    factors: tuple[np.ndarray, np.ndarray]
    centred: bool

    @property
    def is_last(self) -> bool:
        """Whether the axes are the last ones."""
        return self.axes == tuple(range(self.axes[0], len(self.shape)))

    @property
    def of_planes(self) -> bool:
        return self.is_last and self.axes[0] == 2


def standardised(matcher: Matcher, call: relax.Call) -> Standardised | None:
    """Return what ``call`` standardises; None if it computes anything else."""
    shape = known_shape(call)
    if shape is None or 0 in shape or not is_float32(call):
        return None
    values = [matcher.value(expr) for expr in below(matcher, call, _BETWEEN, _FAR)]
    if not any(_root(value) for value in values):
        return None
    reduced = [v.args[0] for v in values if op_name(v) in ("mean", "sum", "variance")]
    squared = [matcher.value(expr) for expr in reduced]
    factors = [v.args[0] for v in squared if op_name(v) in ("multiply", "power", "square")]
    for data in dict.fromkeys([*reduced, *factors]):
        if known_shape(data) == shape:
            found = _Formula(matcher, data).read(call)
            if found is not None:
                return found
    return None


def _root(value: relax.Expr) -> int:
    """Return the power of an inverse deviation that a root is, or 0."""
    if op_name(value) == "power":
        power = scalar_constant(value.args[1])
        return 0 if power is None else _ROOT_POWERS.get(power, 0)
    return _ROOTS.get(op_name(value), 0)


class _Formula:
    """Reads values as polynomials of a tensor, its mean, its variance, and its inverse deviation.

    They are ``x``, ``m``, ``v`` and ``r``; the mean of squares is ``q``. Where reduced axes are
    left out, there is a ``-`` behind the name.
    """

    def __init__(self, matcher: Matcher, data: relax.Expr) -> None:
        self._matcher, self._data, self._shape = matcher, data, held_shape(data)
        self._axes: tuple[int, ...] | None = None
        self._epsilon: float | None = None
        self._centred: bool | None = None
        self._values = Polynomials(matcher, self._atoms)

    def read(self, call: relax.Call) -> Standardised | None:
        """Return what is standardised, if that is the data."""
        found = self._values.of(call)
        if found is None or self._axes is None or self._epsilon is None or self._centred is None:
            return None
        scaled_by = {_DATA, _MEAN} if self._centred else {_DATA}
        if not scaled_by <= found.keys() <= {*scaled_by, ()}:
            return None
        gamma, beta = found[_DATA], found.get((), np.zeros(()))
        if self._centred and not is_close(found[_MEAN], -gamma):
            return None
        held = [_single(np.asarray(factor), len(self._shape)) for factor in (gamma, beta)]
        if held[0] is None or held[1] is None:
            return None
        factors = held[0], held[1]
        return Standardised(
            self._data, self._shape, self._axes, self._epsilon, factors, self._centred
        )

    def _atoms(self, expr: relax.Expr, value: relax.Expr) -> Polynomial | None:
        if expr.same_as(self._data):
            return atom("x")
        name = op_name(value)
        if name in ("mean", "sum", "variance"):
            return self._reduced(name, value)
        if _root(value):
            return self._deviation(value)
        if name in ("nn.relu", "maximum"):
            return self._limited(value)
        return self._restored(value) if name in ("reshape", "expand_dims") else None

    def _reduced(self, name: str, call: relax.Call) -> Polynomial | None:
        axes = call.attrs.axis
        rank = len(self._shape)
        if axes is None or not axes or known_shape(call.args[0]) != self._shape:
            return None
        places = tuple(sorted(int(axis) % rank for axis in axes))
        if self._axes not in (None, places):
            return None
        found = self._values.of(call.args[0])
        kind = None if found is None else _kind(found)
        if name == "variance":
            kind = "v" if kind == "m" else None
        count = math.prod(self._shape[axis] for axis in places) if name == "sum" else 1
        if kind is None or not isinstance(count, int):
            return None
        self._axes = places
        return scaled(atom(kind if call.attrs.keepdims else f"{kind}-"), float(count))

    def _deviation(self, call: relax.Call) -> Polynomial | None:
        """Return the root of a small number and the variance, or the mean of squares."""
        found = dict(self._values.of(call.args[0]) or {})
        epsilon = found.pop((), np.zeros(()))
        centred = is_near(found, _VARIANCE) or is_near(found, _VARIANCE_BY_SQUARES)
        known = centred or is_near(found, _MEAN_OF_SQUARES)
        if not known or epsilon.size != 1 or not epsilon.reshape(-1)[0] > 0:
            return None
        value = float(epsilon.reshape(-1)[0])
        if self._epsilon not in (None, value) or self._centred not in (None, centred):
            return None
        self._epsilon, self._centred = value, centred
        return atom("r", _root(call))

    def _limited(self, call: relax.Call) -> Polynomial | None:
        """Return a variance as it is if numbers below zero, which are no variances, become zero."""
        data, *limits = call.args
        if any(scalar_constant(limit) != 0 for limit in limits):
            return None
        found = self._values.of(data)
        return found if found is not None and is_near(found, _VARIANCE_BY_SQUARES) else None

    def _restored(self, call: relax.Call) -> Polynomial | None:
        """Return what is reduced with its axes, each of one element."""
        found, shape = self._values.of(call.args[0]), known_shape(call)
        if found is None or shape is None or self._axes is None or len(found) != 1:
            return None
        kept = [1 if axis in self._axes else size for axis, size in enumerate(self._shape)]
        ((monomial, factor),) = found.items()
        is_reduced = len(monomial) == 1 and monomial[0][0].endswith("-")
        if not is_reduced or not _are(shape, kept):
            return None
        ((name, power),) = monomial
        return {((name.removesuffix("-"), power),): factor}


def _kind(found: Polynomial) -> str | None:
    """Return the atom that the mean of a value is."""
    kinds: dict[str, dict[Monomial, float]] = {
        "m": {(("x", 1),): 1.0},
        "q": _SQUARES,
        "v": _CENTRED_SQUARES,
    }
    return next((kind for kind, wanted in kinds.items() if is_near(found, wanted)), None)


def _are(shape: Sequence[AnySize], wanted: Sequence[AnySize]) -> bool:
    return len(shape) == len(wanted) and all(map(known_equal, shape, wanted))


def _single(factor: np.ndarray, rank: int) -> np.ndarray | None:
    """Return a factor in float32 with axes before its own; None if it is not in the range."""
    with np.errstate(all="ignore"):
        value = factor.astype("float32")
    if value.ndim > rank or not np.isfinite(value).all():
        return None
    return value.reshape((1,) * (rank - value.ndim) + value.shape)
