# SPDX-License-Identifier: Apache-2.0
"""Layers of ONNX Runtime whose weights are 8-bit integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from tvm import relax

from ....emitter import constant, constant_array, dtype_of, shape_of
from ...node_emitter import NodeEmitter
from ..quantization import check_scale, quantized_by_range
from ..recurrent import LSTM, Layer, Tensors, converted
from ..table import Value
from .attention import attended_with_past
from .domain import check_shape, contributed
from .embedding import embed_layer_normalization
from .heads import by_heads, rows_of_heads
from .quantized import real
from .quantized_products import scaled_product

_HIDDEN = -10000.0  # what is added to the scores of a key that is not read

_GATES = frozenset((
    "activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size",
))  # fmt: skip


@contributed("DynamicQuantizeLSTM", shared=_GATES)
def dynamic_quantize_lstm(
    emit: NodeEmitter,
    data: relax.Expr,
    weights: relax.Expr,
    recurrent: relax.Expr,
    biases: relax.Expr | None,
    sequence_lens: relax.Expr | None,
    initial_h: relax.Expr | None,
    initial_c: relax.Expr | None,
    peepholes: relax.Expr | None,
    w_scale: relax.Expr,
    w_zero_point: relax.Expr,
    r_scale: relax.Expr,
    r_zero_point: relax.Expr,
    *,
    input_forget: int = 0,
    **attributes: Any,
) -> Value:
    """Convert a layer whose weights are quantised.

    Where these are no constants of 8 bits, what is multiplied by them is not rounded.
    """
    grids = (weights, w_scale, w_zero_point), (recurrent, r_scale, r_zero_point)
    for grid in grids:
        _check_grid(emit, *grid)
    kind: Callable[..., Layer] = Layer
    weights, recurrent = (_dequantized(emit, *grid) for grid in grids)
    known = [grid for grid in (_Grid.of(emit, *grid) for grid in grids) if grid is not None]
    if len(known) == len(grids) and dtype_of(data) == "float32":
        kind = partial(_QuantizedLayer, grids=known)
        weights, recurrent = (constant(grid.numbers) for grid in known)
    weights, recurrent = (emit.transpose(x, [0, 2, 1]) for x in (weights, recurrent))
    states = [initial_h, initial_c]
    given = Tensors(data, weights, recurrent, biases, sequence_lens, peepholes, states)
    return converted(kind, emit, LSTM, given, coupled=bool(input_forget), **attributes)


@dataclass(frozen=True)
class _Grid:
    """Constant weights.

    Attributes
    ----------
    numbers : numpy.ndarray
        int8 ``[directions, inputs, gates]``, less their zero points.
    scales : numpy.ndarray
        float32 ``[directions, gates]``.
    """

    numbers: np.ndarray
    scales: np.ndarray

    @staticmethod
    def of(
        emit: NodeEmitter, data: relax.Expr, scale: relax.Expr, zero_point: relax.Expr
    ) -> _Grid | None:
        """Return weights; None for those that are computed, or no int8 less their zero points."""
        arrays = [constant_array(x) for x in (data, scale, zero_point)]
        numbers, scales, zeros = (
            None if x is None else x.reshape(*x.shape, 1)[:, :1] if x.ndim == 1 else x
            for x in arrays
        )
        if numbers is None or scales is None or zeros is None:
            return None
        whole = numbers.astype("int16") - zeros.astype("int16")[:, None]
        if whole.min(initial=0) < -128 or whole.max(initial=0) > 127:
            return None
        return _Grid(whole.astype("int8"), np.broadcast_to(scales, (len(whole), whole.shape[2])))


@dataclass(frozen=True)
class _QuantizedLayer(Layer):
    """A layer whose inputs and states are rounded to 8 bits, as their range says.

    Attributes
    ----------
    grids : sequence of _Grid
        The weights of the inputs and those of the states.
    """

    grids: Sequence[_Grid]

    @property
    def quantized(self) -> bool:
        return True

    @cached_property
    def _whole(self) -> tuple[relax.Expr, relax.Expr, relax.Expr]:
        """The inputs as integers, their scale and their zero point."""
        return quantized_by_range(self.emit, self.given.data)

    def products(self, direction: int) -> relax.Expr:
        whole, scale, zero_point = self._whole
        grid = scale, self._scales(0, direction), zero_point, None
        weights = self.columns(self.given.weights, direction)
        return scaled_product(self.emit, whole, weights, grid, None)

    def factors(self, direction: int) -> list[relax.Expr]:
        return [self.columns(self.given.recurrent, direction), self._scales(1, direction)]

    def _scales(self, place: int, direction: int) -> relax.Expr:
        return self.ordered(constant(self.grids[place].scales[direction]))


def _check_grid(
    emit: NodeEmitter, data: relax.Expr, scale: relax.Expr, zero_point: relax.Expr
) -> None:
    """Check the grids of weights, one for each direction, or for each gate of one."""
    check_scale(emit, scale)
    shape = shape_of(data)
    for part, what in ((scale, "scales"), (zero_point, "zero points")):
        if len(shape) != 3 or shape_of(part) not in (shape[:1], (shape[0], shape[2])):
            raise emit.error(f"has {what} of {list(shape_of(part))} for {list(shape)} weights.")
    if dtype_of(zero_point) != dtype_of(data):
        raise emit.error(f"has zero points of {dtype_of(zero_point)} for {dtype_of(data)}.")


def _dequantized(
    emit: NodeEmitter, data: relax.Expr, scale: relax.Expr, zero_point: relax.Expr
) -> relax.Expr:
    """Dequantise ``[directions, inputs, gates]``, by direction or by direction and gate."""
    shape = shape_of(data)
    scale, zero_point = (
        emit.reshape(part, [shape[0], 1, *(shape_of(part)[1:] or (1,))])
        for part in (scale, zero_point)
    )
    wide, zero = emit.cast(data, "float32"), emit.cast(zero_point, "float32")
    return emit.product(emit.difference(wide, zero), scale)


@contributed("QAttention")
def qattention(
    emit: NodeEmitter,
    data: relax.Expr,
    weights: relax.Expr,
    bias: relax.Expr,
    input_scale: relax.Expr,
    weight_scale: relax.Expr,
    mask_index: relax.Expr | None = None,
    input_zero_point: relax.Expr | None = None,
    weight_zero_point: relax.Expr | None = None,
    past: relax.Expr | None = None,
    *,
    num_heads: int,
    do_rotary: int = 0,
    mask_filter_value: float = _HIDDEN,
    past_present_share_buffer: int = 0,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> Value:
    """Project 8-bit integers to queries, keys and values, and attend to these in float32."""
    if do_rotary or past_present_share_buffer:
        raise emit.error("rotates queries, or shares the past's buffer, which is not supported.")
    check_shape(emit, weights, [shape_of(data)[-1], *shape_of(weights)[-1:]], "weights")
    columns = shape_of(weights)[1]
    if columns % 3:
        raise emit.error(f"divides {columns} columns into queries, keys and values.")
    grids = input_scale, weight_scale, input_zero_point, weight_zero_point
    products = scaled_product(emit, data, weights, grids, bias)
    size = columns // 3
    query, key, value = (
        by_heads(emit, rows_of_heads(emit, part, num_heads, "a product"))
        for part in (emit.slice(products, 2, n * size, (n + 1) * size) for n in range(3))
    )
    given = past, mask_index, None
    causal = bool(unidirectional)
    return attended_with_past(emit, (query, key, value), given, mask_filter_value, scale, causal)


@contributed("QEmbedLayerNormalization")
def qembed_layer_normalization(
    emit: NodeEmitter,
    input_ids: relax.Expr,
    segment_ids: relax.Expr | None,
    words: relax.Expr,
    positions: relax.Expr,
    segments: relax.Expr | None,
    gamma: relax.Expr,
    beta: relax.Expr,
    mask: relax.Expr | None,
    *grids: relax.Expr | None,
    epsilon: float = 1e-12,
) -> Value:
    """Normalise the sum of embeddings that are 8-bit integers; see EmbedLayerNormalization."""
    tables = [words, positions, segments, gamma, beta]
    if len(grids) != 2 * len(tables):
        raise emit.error(f"has {len(grids)} scales and zero points instead of {2 * len(tables)}.")
    embeddings = [
        None if table is None else real(emit, table, scale, zero_point)
        for table, scale, zero_point in zip(tables, grids[:5], grids[5:], strict=True)
    ]
    results = embed_layer_normalization(
        emit, input_ids, segment_ids, *embeddings, mask, epsilon=epsilon
    )
    assert isinstance(results, tuple), "it has several"
    return results[:2]
