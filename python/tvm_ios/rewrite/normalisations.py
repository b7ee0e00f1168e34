# SPDX-License-Identifier: Apache-2.0
"""Normalisations, as exporters compose them of means and differences, or of reshapes."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from tvm import relax
from tvm.relax.dpl import DFPattern, is_const, wildcard

from ..relax_ir.expressions import is_float32, known_shape
from ..sizes.size import AnyShape, is_open
from .matching import Match, Matcher, operation
from .standardised import Standardised, standardised

Factors = tuple[np.ndarray, np.ndarray]
"""What is multiplied by, and what is added."""


class LayerOrInstanceNorm:
    """A layer or instance normalisation of constant factors, or one of squares alone.

    The shapes of the factors say which it is: those of a layer normalisation extend along the axes
    of the mean, those of an instance normalisation along the channels. Others are applied to a
    layer normalisation without factors.
    """

    def raised(self, matcher: Matcher, call: relax.Call) -> relax.Call | None:
        """Return the operator if ``call`` is the last of its composition."""
        found = standardised(matcher, call)
        if found is None:
            return None
        if not found.centred:
            return _rms_norm(found)
        norm = _normalised(found, found.factors)
        if norm is not None:
            return norm
        ones = np.ones((1,) * len(found.shape), "float32")
        norm = _normalised(found, (ones, np.zeros_like(ones)))
        if norm is None:
            return None
        gamma, beta = map(relax.const, found.factors)
        return relax.op.add(relax.op.multiply(norm, gamma), beta)


def _normalised(found: Standardised, factors: Factors) -> relax.Call | None:
    """Return the operator with factors of these shapes; None if there is none."""
    open_channels = is_open(found.shape[1:2])  # constants cannot have as many elements
    if all(_varies_in(factor, found.axes) for factor in factors):
        if found.axes == (1,) and len(found.shape) > 2:
            return None if open_channels else _channel_norm(found, factors)
        open_rows = is_open(found.shape[found.axes[0] :])
        return _layer_norm(found, factors) if found.is_last and not open_rows else None
    of_channels = all(_varies_in(factor, (1,)) for factor in factors)
    if not found.of_planes or open_channels or not of_channels:
        return None
    gamma, beta = (relax.const(_channels(f, found.shape[1])) for f in factors)
    return relax.op.nn.instance_norm(found.data, gamma, beta, 1, list(found.axes), found.epsilon)


class GroupNorm:
    """The pattern of a group normalisation: another one between two reshapes."""

    def __init__(self) -> None:
        self._grouped = operation("reshape", wildcard(), wildcard())
        self._gamma, self._beta = is_const(), is_const()
        operands = self._grouped, self._gamma, self._beta
        self._instance = operation("nn.instance_norm", *operands)
        self._layer = operation("nn.layer_norm", *operands)
        self._inner = _Affine(self._instance | self._layer)
        self._outer = _Affine(operation("reshape", self._inner.pattern, wildcard()))

    def raised(self, matcher: Matcher, call: relax.Call) -> relax.Call | None:
        """Return the operator if ``call`` is the last of its composition."""
        match = matcher.match(self._outer.pattern, call)
        if match is None or not is_float32(call):
            return None
        norm = match.call(self._instance if self._instance in match else self._layer)
        grouped = match.call(self._grouped)
        data = grouped.args[0]
        shape, parts = known_shape(data), known_shape(grouped)
        if shape is None or parts is None or len(shape) < 3 or known_shape(call) != shape:
            return None
        groups, inside = parts[1], list(range(2, len(parts)))
        axes = [int(axis) % len(parts) for axis in norm.attrs.axes]
        if is_open((shape[1], groups)) or shape[0] != parts[0]:
            return None
        if shape[1] % groups != 0 or axes != inside:
            return None
        place = (1, groups, *[1] * len(inside)) if self._instance in match else (1, 1, *parts[2:])
        own = [match.array(pattern) for pattern in (self._gamma, self._beta)]
        scale, shift = np.ones(()), np.zeros(())
        for given, axes_of in (
            ([f.reshape(place) for f in own if f is not None], parts),
            (self._inner.factors(match, parts), parts),
            (self._outer.factors(match, shape), shape),
        ):
            gamma, beta = (_by_channel(factor, axes_of, shape[1]) for factor in given)
            if gamma is None or beta is None:
                return None
            scale, shift = scale * gamma, shift * gamma + beta
        factors = (relax.const(factor.astype("float32")) for factor in (scale, shift))
        places = list(range(2, len(shape)))
        return relax.op.nn.group_norm(data, *factors, groups, 1, places, norm.attrs.epsilon)


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


def _layer_norm(found: Standardised, factors: Factors) -> relax.Call:
    gamma, beta = (_of_row(found, factor) for factor in factors)
    axes = [axis - len(found.shape) for axis in found.axes]
    return relax.op.nn.layer_norm(found.data, gamma, beta, axes, found.epsilon)


def _rms_norm(found: Standardised) -> relax.Call | None:
    """Return the normalisation of rows by their squares; None if there is none for the axes."""
    if not found.is_last or is_open(found.shape[found.axes[0] :]):
        return None
    gamma, beta = found.factors
    of_rows = _varies_in(gamma, found.axes)
    factor = _of_row(found, gamma if of_rows else np.ones((1,) * gamma.ndim, "float32"))
    axes = [axis - len(found.shape) for axis in found.axes]
    norm = relax.op.nn.rms_norm(found.data, factor, axes, found.epsilon)
    if not of_rows:
        norm = relax.op.multiply(norm, relax.const(gamma))
    return relax.op.add(norm, relax.const(beta)) if beta.any() else norm


def _of_row(found: Standardised, factor: np.ndarray) -> relax.Expr:
    """Return a factor of each element along the axes of the mean, which are the last ones."""
    first = found.axes[0]
    return relax.const(np.broadcast_to(factor[(0,) * first], found.shape[first:]).copy())


def _channel_norm(found: Standardised, factors: Factors) -> relax.Call:
    """Return a layer normalisation of axis 1; of other tensors than images, by permutations."""
    rank = len(found.shape)
    gamma, beta = (relax.const(_channels(f, found.shape[1])) for f in factors)
    if rank == 4:
        return relax.op.nn.layer_norm(found.data, gamma, beta, [1], found.epsilon)
    rows = relax.op.permute_dims(found.data, [0, *range(2, rank), 1])
    norm = relax.op.nn.layer_norm(rows, gamma, beta, [-1], found.epsilon)
    return relax.op.permute_dims(norm, [0, rank - 1, *range(1, rank - 1)])


class _Affine:
    """The pattern of a tensor multiplied by a constant and added to one, or to either alone."""

    def __init__(self, data: DFPattern) -> None:
        self._gamma, self._beta = is_const(), is_const()
        scaled = operation("multiply", data, self._gamma)
        shifted = operation("add", scaled, self._beta) | operation("add", data, self._beta)
        self.pattern = shifted | scaled | data

    def factors(self, match: Match, shape: AnyShape) -> Factors:
        """Return gamma and beta, with as many axes as the tensor has."""
        rank = len(shape)
        gamma, beta = match.array(self._gamma), match.array(self._beta)
        values = (
            np.ones(1, "float32") if gamma is None else gamma,
            np.zeros(1, "float32") if beta is None else beta,
        )
        first, second = (v.reshape((1,) * (rank - v.ndim) + v.shape) for v in values)
        return first, second


def _varies_in(factor: np.ndarray, axes: Collection[int]) -> bool:
    """Return whether a factor has one element along all other axes."""
    return all(size == 1 or axis in axes for axis, size in enumerate(factor.shape))


def _channels(factor: np.ndarray, channels: int) -> np.ndarray:
    """Return the elements along axis 1."""
    return np.broadcast_to(factor.reshape(-1), (channels,)).copy()


def _by_channel(factor: np.ndarray, shape: AnyShape, channels: int) -> np.ndarray | None:
    """Return the factor of each channel, of which an element of axis 1 has one or several.

    None if it varies among the elements of a channel.
    """
    if _varies_in(factor, (1,)):
        return np.repeat(_channels(factor, shape[1]), channels // shape[1])
    if is_open(shape) or factor.shape[0] != 1:
        return None
    rows = np.broadcast_to(factor, (1, *shape[1:])).reshape(channels, -1)
    return rows[:, 0] if (rows == rows[:, :1]).all() else None


NORMALISATIONS = (LayerOrInstanceNorm(),)
GROUPED_NORMALISATIONS = (GroupNorm(),)
PERMUTED_NORMALISATIONS = (ChannelNorm(),)
