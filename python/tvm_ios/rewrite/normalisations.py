# SPDX-License-Identifier: Apache-2.0
"""Normalisations, as exporters compose them of means and differences."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from tvm import relax
from tvm.relax.dpl import DFPattern, is_const, wildcard

from ..relax_ir.expressions import is_float32, known_shape
from ..sizes.size import is_open
from .matching import Match, Matcher, operation


class LayerOrInstanceNorm:
    """The pattern of a layer or instance normalisation of constant factors.

    The shapes of the factors say which it is: those of a layer normalisation extend along the axes
    of the mean, those of an instance normalisation along the channels.
    """

    def __init__(self) -> None:
        self._standardised = _Standardised(wildcard())
        self._affine = _Affine(self._standardised.pattern)

    def raised(self, matcher: Matcher, call: relax.Call) -> relax.Call | None:
        """Return the operator if ``call`` is the last of its composition."""
        match = matcher.match(self._affine.pattern, call)
        found = None if match is None else self._standardised.read(match)
        if match is None or found is None or known_shape(call) != found.shape:
            return None
        factors = self._affine.factors(match, found.data, found.shape)
        open_channels = is_open(found.shape[1:2])  # constants cannot have as many elements
        if all(_varies_in(factor, found.axes) for factor in factors):
            if found.axes == (1,) and len(found.shape) > 2:
                return None if open_channels else _channel_norm(found, factors)
            open_rows = is_open(found.shape[found.axes[0] :])
            return _layer_norm(found, factors) if found.is_last and not open_rows else None
        if (
            found.of_planes
            and not open_channels
            and all(_varies_in(factor, (1,)) for factor in factors)
        ):
            gamma, beta = (relax.const(_channels(f, found.shape[1])) for f in factors)
            axes = list(found.axes)
            return relax.op.nn.instance_norm(found.data, gamma, beta, 1, axes, found.epsilon)
        return None


class GroupNorm:
    """The pattern of a group normalisation: an instance normalisation between two reshapes."""

    def __init__(self) -> None:
        self._grouped = operation("reshape", wildcard(), wildcard())
        self._gamma, self._beta = is_const(), is_const()
        self._norm = operation("nn.instance_norm", self._grouped, self._gamma, self._beta)
        self._outer = _Affine(operation("reshape", self._norm, wildcard()))

    def raised(self, matcher: Matcher, call: relax.Call) -> relax.Call | None:
        """Return the operator if ``call`` is the last of its composition."""
        match = matcher.match(self._outer.pattern, call)
        if match is None or not is_float32(call):
            return None
        grouped, norm = match.call(self._grouped), match.call(self._norm)
        data = grouped.args[0]
        shape, parts = known_shape(data), known_shape(grouped)
        if shape is None or parts is None or len(shape) < 3 or known_shape(call) != shape:
            return None
        groups = parts[1]
        if shape[0] != parts[0] or shape[1] % groups != 0:
            return None
        outer = self._outer.factors(match, data, shape)
        if not all(_varies_in(factor, (1,)) for factor in outer):
            return None
        inner = [match.array(pattern) for pattern in (self._gamma, self._beta)]
        scale, shift = (
            np.repeat(_channels(f, groups), shape[1] // groups) for f in inner if f is not None
        )
        gamma, beta = (_channels(f, shape[1]) for f in outer)
        factors = (relax.const(value) for value in (scale * gamma, shift * gamma + beta))
        axes = list(range(2, len(shape)))
        return relax.op.nn.group_norm(data, *factors, groups, 1, axes, norm.attrs.epsilon)


class ChannelNorm:
    """The pattern of a layer normalisation of the last axis between two permutations.

    Exporters write that of the channels of images so.
    """

    def __init__(self) -> None:
        self._rows = operation("permute_dims", wildcard())
        self._norm = operation("nn.layer_norm", self._rows, wildcard(), wildcard())
        self._pattern = operation("permute_dims", self._norm)

    def raised(self, matcher: Matcher, call: relax.Call) -> relax.Call | None:
        """Return the operator if ``call`` is the last of its composition."""
        match = matcher.match(self._pattern, call)
        if match is None:
            return None
        rows, norm = match.call(self._rows), match.call(self._norm)
        permuted = [[int(axis) % 4 for axis in each.attrs.axes or ()] for each in (rows, call)]
        axes = [int(axis) % 4 for axis in norm.attrs.axes]
        if len(known_shape(call) or ()) != 4 or not is_float32(call):
            return None
        if permuted != [[0, 2, 3, 1], [0, 3, 1, 2]] or axes != [3]:
            return None
        attrs, factors = norm.attrs, norm.args[1:]
        return relax.op.nn.layer_norm(
            rows.args[0], *factors, [1], attrs.epsilon, attrs.center, attrs.scale
        )


class _Standard(NamedTuple):
    """What is standardised: the tensor, its shape, and the axes of the mean in their order."""

    data: relax.Expr
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    epsilon: float

    @property
    def is_last(self) -> bool:
        """Whether the axes are the last ones."""
        return self.axes == tuple(range(self.axes[0], len(self.shape)))

    @property
    def of_planes(self) -> bool:
        return self.is_last and self.axes[0] == 2


Factors = tuple[np.ndarray, np.ndarray]


def _layer_norm(found: _Standard, factors: Factors) -> relax.Call:
    first = found.axes[0]
    gamma, beta = (
        relax.const(np.broadcast_to(f[(0,) * first], found.shape[first:]).copy()) for f in factors
    )
    axes = [axis - len(found.shape) for axis in found.axes]
    return relax.op.nn.layer_norm(found.data, gamma, beta, axes, found.epsilon)


def _channel_norm(found: _Standard, factors: Factors) -> relax.Call:
    """Return a layer normalisation of axis 1; of other tensors than images, by permutations."""
    rank = len(found.shape)
    gamma, beta = (relax.const(_channels(f, found.shape[1])) for f in factors)
    if rank == 4:
        return relax.op.nn.layer_norm(found.data, gamma, beta, [1], found.epsilon)
    rows = relax.op.permute_dims(found.data, [0, *range(2, rank), 1])
    norm = relax.op.nn.layer_norm(rows, gamma, beta, [-1], found.epsilon)
    return relax.op.permute_dims(norm, [0, rank - 1, *range(1, rank - 1)])


class _Standardised:
    """The pattern of ``(x - mean) / sqrt(variance + epsilon)``."""

    def __init__(self, data: DFPattern) -> None:
        self._data = data
        self._means: list[DFPattern] = []
        self._two, self._epsilon = is_const(), is_const()
        variance = self._mean("variance", data) | self._mean("mean", self._squares())
        deviation = operation("sqrt", operation("add", variance, self._epsilon))
        self.pattern = operation("divide", self._centred(), deviation)

    def read(self, match: Match) -> _Standard | None:
        """Return what is standardised; None if its parts do not agree."""
        data = match.operand(self._data)
        shape, epsilon = known_shape(data), match.array(self._epsilon)
        means = [match.call(mean).attrs for mean in self._means if mean in match]
        if shape is None or 0 in shape or epsilon is None or epsilon.size != 1:
            return None
        if not is_float32(data):  # TVM's operators do not support float64
            return None
        if not match.is_number(self._two, 2.0) or any(mean.axis is None for mean in means):
            return None
        axes = {tuple(sorted(int(axis) % len(shape) for axis in mean.axis)) for mean in means}
        if len(axes) != 1 or () in axes or not all(mean.keepdims for mean in means):
            return None
        return _Standard(data, shape, axes.pop(), float(epsilon.reshape(-1)[0]))

    def _mean(self, operator: str, data: DFPattern) -> DFPattern:
        self._means.append(operation(operator, data))
        return self._means[-1]

    def _centred(self) -> DFPattern:
        return operation("subtract", self._data, self._mean("mean", self._data))

    def _squares(self) -> DFPattern:
        centred = self._centred()
        squares = operation("power", centred, self._two)
        return squares | operation("multiply", centred, centred) | operation("square", centred)


class _Affine:
    """The pattern of a tensor multiplied by a constant and added to one, or to either alone."""

    def __init__(self, data: DFPattern) -> None:
        self._gamma, self._beta = is_const(), is_const()
        scaled = operation("multiply", data, self._gamma)
        shifted = operation("add", scaled, self._beta) | operation("add", data, self._beta)
        self.pattern = shifted | scaled | data

    def factors(self, match: Match, data: relax.Expr, shape: tuple[int, ...]) -> Factors:
        """Return gamma and beta, with as many axes as the tensor has."""
        rank, dtype = len(shape), str(data.ty.dtype.dtype)
        gamma, beta = match.array(self._gamma), match.array(self._beta)
        values = (
            np.ones(1, dtype) if gamma is None else gamma,
            np.zeros(1, dtype) if beta is None else beta,
        )
        first, second = (v.reshape((1,) * (rank - v.ndim) + v.shape) for v in values)
        return first, second


def _varies_in(factor: np.ndarray, axes: Collection[int]) -> bool:
    """Return whether a factor has one element along all other axes."""
    return all(size == 1 or axis in axes for axis, size in enumerate(factor.shape))


def _channels(factor: np.ndarray, channels: int) -> np.ndarray:
    """Return the elements along axis 1."""
    return np.broadcast_to(factor.reshape(-1), (channels,)).copy()


NORMALISATIONS = (GroupNorm(), LayerOrInstanceNorm())
PERMUTED_NORMALISATIONS = (ChannelNorm(),)
