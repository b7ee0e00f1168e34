# SPDX-License-Identifier: Apache-2.0
"""Attention, as exporters compose it of products and a softmax."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import tvm
from tvm import relax
from tvm.relax.dpl import DFPattern, is_const, wildcard

from ..relax_ir.constants import constant_array, scalar_constant
from ..relax_ir.expressions import held_shape, is_float32, is_op, known_shape
from ..sizes.size import is_open, known_equal
from .compositions import raise_by
from .matching import Match, Matcher, operation

_TO_HEADS = (0, 2, 1, 3)
"""From ``[batch, rows, heads, columns]`` to ``[batch, heads, rows, columns]``."""
_TO_TRANSPOSED_HEADS = (0, 2, 3, 1)

Operands = tuple[relax.Expr, relax.Expr, relax.Expr]


def attention_raiser(depth: int) -> Callable[[tvm.IRModule, relax.Function], relax.Function]:
    """Return a rewrite that replaces ``softmax(scale * Q K^T + bias) V`` by Relax's attention.

    Where heads are an axis that is permuted before and after, the permutations become a part of it.
    Otherwise each matrix is an image with one head. A bias must be constant or the same for all
    queries, and a head not larger than ``depth``.
    """
    compositions = {
        "permute_dims": (_Attention(depth, permuted=True),),
        "matmul": (_Attention(depth),),
    }

    def raise_attention(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
        return raise_by(compositions, mod, func)

    return raise_attention


class _Attention:
    """The pattern of an attention, whose heads are permuted or not."""

    def __init__(self, depth: int, *, permuted: bool = False) -> None:
        self._depth, self._permuted = depth, permuted
        self._query, self._key, self._value, self._bias = (wildcard() for _ in range(4))
        query, key = _Scaled(self._query), _Scaled(self._key)
        scores = _Scaled(operation("matmul", query.pattern, key.pattern))
        self._scaled = (query, key, scores)
        biased = operation("add", scores.pattern, self._bias) | scores.pattern
        self._softmax = operation("nn.softmax", biased)
        self._largest, self._infinite, self._zero = operation("max", biased), is_const(), is_const()
        hidden = operation("equal", self._largest, self._infinite)
        self._undefined = operation("isnan", self._softmax)
        guarded = (
            operation("where", guard, self._zero, self._softmax)
            for guard in (hidden, self._undefined)
        )
        weights = next(guarded) | next(guarded) | self._softmax
        product = operation("matmul", weights, self._value)
        self._pattern = operation("permute_dims", product) if permuted else product

    def raised(self, matcher: Matcher, call: relax.Call) -> relax.Expr | None:
        """Return the operator if ``call`` is the last of its composition."""
        match = matcher.match(self._pattern, call)
        operands = None if match is None else self._operands(matcher, match, call)
        if match is None or operands is None or not _is_last(match.call(self._softmax)):
            return None
        factors = [scaled.factor(match) for scaled in self._scaled]
        if None in factors or not is_float32(call):
            return None
        bias = match.operand(self._bias) if self._bias in match else None
        if self._largest in match and not self._never_hidden(match, bias):
            return None
        if self._undefined in match and not self._always_defined(matcher, match, bias):
            return None
        if bias is not None:
            matrices = held_shape(match.call(self._softmax))
            bias = _four_axes(bias, matrices, merged=not self._permuted)
            if bias is None:
                return None
        scale = tvm.tirx.FloatImm("float32", math.prod(f for f in factors if f is not None))
        attention = relax.op.nn.attention(*operands, bias=bias, scale=scale)
        return attention if self._permuted else relax.op.reshape(attention, held_shape(call))

    def _never_hidden(self, match: Match, bias: relax.Expr | None) -> bool:
        """Return whether a constant bias shows each query a key.

        For a query that a mask hides all keys from, PyTorch writes zeros instead of weights.
        """
        array = None if bias is None else constant_array(bias)
        axes = match.call(self._largest).attrs.axis
        rank = len(held_shape(match.call(self._softmax)))
        last = axes is not None and [int(axis) % rank for axis in axes] == [rank - 1]
        zeros = match.is_number(self._zero, 0.0) and match.is_number(self._infinite, -math.inf)
        return last and zeros and array is not None and bool((array > -np.inf).any(-1).all())

    def _always_defined(self, matcher: Matcher, match: Match, bias: relax.Expr | None) -> bool:
        """Return whether scores that are numbers have weights that are, whatever a mask hides.

        Otherwise, PyTorch writes zeros.
        """
        if not match.is_number(self._zero, 0.0):
            return False
        array = None if bias is None else constant_array(bias)
        if bias is None or array is not None:
            return array is None or bool(np.isfinite(array).all())
        mask = matcher.value(bias)
        values = [scalar_constant(value) for value in mask.args[1:]] if is_op(mask, "where") else []
        return bool(values) and all(value is not None and math.isfinite(value) for value in values)

    def _operands(self, matcher: Matcher, match: Match, call: relax.Call) -> Operands | None:
        """Return queries, keys and values as ``[batch, rows, heads, columns]``."""
        found = [match.operand(pattern) for pattern in (self._query, self._key, self._value)]
        shapes = [known_shape(operand) for operand in found]
        first = shapes[0]
        if first is None or any(s is None or 0 in s or s[:-2] != first[:-2] for s in shapes):
            return None
        query, key, value = found
        if is_open((first[-1], held_shape(value)[-1])):
            return None
        if max(first[-1], held_shape(value)[-1]) > self._depth:
            return None
        if self._permuted:
            if tuple(call.attrs.axes) != _TO_HEADS:
                return None
            rows = [_source(matcher, query, _TO_HEADS), _source(matcher, value, _TO_HEADS)]
            rows.insert(1, _source(matcher, key, _TO_TRANSPOSED_HEADS))
            return None if None in rows else (rows[0], rows[1], rows[2])
        if len(first) not in (3, 4):
            return None
        *outer, depth, keys = held_shape(key)
        return (
            _image(query, held_shape(query)),
            _image(_transposed(matcher, key), (*outer, keys, depth)),
            _image(value, held_shape(value)),
        )


class _Scaled:
    """The pattern of a tensor times a number, or of the tensor alone."""

    def __init__(self, data: DFPattern) -> None:
        self._factor = is_const()
        self.pattern = operation("multiply", data, self._factor) | data

    def factor(self, match: Match) -> float | None:
        """Return the number; None if the tensor is multiplied by several."""
        return scalar_constant(match.operand(self._factor)) if self._factor in match else 1.0


def _is_last(softmax: relax.Call) -> bool:
    return int(softmax.attrs.axis) in (-1, len(held_shape(softmax)) - 1)


def _source(matcher: Matcher, tensor: relax.Expr, axes: tuple[int, ...]) -> relax.Expr | None:
    """Return what ``tensor`` is a permutation by ``axes`` of, in one step or two."""
    total: list[int] | None = None
    call = matcher.value(tensor)
    while is_op(call, "permute_dims") and call.attrs.axes is not None:
        step = [int(axis) for axis in call.attrs.axes]
        total = step if total is None else [step[axis] for axis in total]
        if tuple(total) == axes:
            return call.args[0]
        call = matcher.value(call.args[0])
    return None


def _transposed(matcher: Matcher, matrices: relax.Expr) -> relax.Expr:
    """Return the matrices of which these are the transposed ones."""
    rank = len(held_shape(matrices))
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    source = _source(matcher, matrices, swapped)
    return relax.op.permute_dims(matrices, swapped) if source is None else source


def _image(matrices: relax.Expr, shape: tuple[int, ...]) -> relax.Expr:
    """Return each matrix as an image with one head."""
    *outer, rows, columns = shape
    return relax.op.reshape(matrices, (math.prod(outer), rows, 1, columns))


def _four_axes(bias: relax.Expr, scores: tuple[int, ...], *, merged: bool) -> relax.Expr | None:
    """Return the bias as ``[batch, heads, queries, keys]``; None if it cannot be added so.

    If ``merged``, the images and heads of the scores are the images of the attention.
    """
    shape, array = known_shape(bias), constant_array(bias)
    if array is not None:
        array = _without_copies(array)
        shape = array.shape
    if shape is None or len(shape) > len(scores) or shape[-1:] != scores[-1:]:
        return None
    *outer, queries, keys = (1,) * (len(scores) - len(shape)) + shape
    pairs = zip(outer, scores[:-2], strict=True)
    if not all(known_equal(n, 1) or known_equal(n, wanted) for n, wanted in pairs):
        return None  # open sizes may be 1 or not
    if merged:
        if math.prod(outer) not in (1, math.prod(scores[:-2])):
            return None
        outer = [math.prod(outer), 1]
    if array is None and not known_equal(queries, 1):
        return None
    target = (*outer, queries, keys)
    if array is not None:
        return relax.const(array.reshape(target))
    return bias if shape == target else relax.op.reshape(bias, target)


def _without_copies(bias: np.ndarray) -> np.ndarray:
    """Return a bias without copies of it for images and heads; the array is read-only."""
    for axis in range(bias.ndim - 2):
        first = bias[(slice(None),) * axis + (slice(1),)]
        if np.array_equal(np.broadcast_to(first, bias.shape), bias):
            bias = first
    return bias
