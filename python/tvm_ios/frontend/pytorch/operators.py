# SPDX-License-Identifier: Apache-2.0
"""Conversion of PyTorch's operators that TVM's importer lacks or converts wrongly."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import relax, tirx

from ...support.errors import ModelError
from .attention import ATTENTION, attention
from .quantization import dequantize, dequantize_channels, quantize
from .recurrent import RECURRENT

if TYPE_CHECKING:
    import torch

Convert = Callable[["torch.fx.Node", Any], relax.Expr]


def _index(node: torch.fx.Node, importer: Any) -> relax.Var:
    """Convert ``x[:, i, j]``; indices may be negative, and are broadcast to one shape.

    The axes of the indices take the place of those that they index, or come first if these are not
    neighbours.
    """
    data, indices = importer.retrieve_args(node)
    extents, emit = importer.shape_of(data), importer.block_builder.emit
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    counted = [emit(_from_the_beginning(indices[axis], extents[axis])) for axis in axes]
    if len(axes) == 1:
        return emit(relax.op.take(data, counted[0], axis=axes[0]))
    rest = [axis for axis in range(len(extents)) if axis not in axes]
    front = emit(relax.op.permute_dims(data, axes + rest))
    result = emit(relax.op.index_tensor(front, counted))
    first = axes[0] if axes[-1] - axes[0] == len(axes) - 1 else 0
    added = len(importer.shape_of(result)) - len(rest)
    order = [*range(added, added + first), *range(added), *range(added + first, added + len(rest))]
    return emit(relax.op.permute_dims(result, order))


def _from_the_beginning(indices: relax.Expr, extent: tirx.IntImm) -> relax.Expr:
    dtype = indices.ty.dtype.dtype
    if dtype == "bool":
        return indices
    negative = relax.op.less(indices, relax.const(0, dtype))
    return relax.op.where(negative, relax.op.add(indices, relax.const(int(extent), dtype)), indices)


def _extreme(reduce: Callable[..., relax.Expr]) -> Convert:
    """Return the conversion of ``amax`` or ``amin``; no axes are all axes."""

    def convert(node: torch.fx.Node, importer: Any) -> relax.Var:
        data, axes, keep = (*importer.retrieve_args(node), [], False)[:3]
        return importer.block_builder.emit(reduce(data, list(axes) or None, keepdims=bool(keep)))

    return convert


def _min_dim(node: torch.fx.Node, importer: Any) -> relax.Expr:
    """Convert ``min(x, dim)``, which returns values and their places."""
    data, axis, keep = (*importer.retrieve_args(node), False)[:3]
    emit = importer.block_builder.emit
    values = emit(relax.op.min(data, axis, keepdims=bool(keep)))
    places = emit(relax.op.argmin(data, axis, keepdims=bool(keep)))
    return emit(relax.Tuple([values, places]))


def _unfold(node: torch.fx.Node, importer: Any) -> relax.Var:
    """Convert ``x.unfold(dim, size, step)``: windows along an axis, each on a new last axis."""
    data, axis, size, step = importer.retrieve_args(node)
    emit, shape = importer.block_builder.emit, [int(size) for size in importer.shape_of(data)]
    axis %= len(shape)
    count = (shape[axis] - size) // step + 1
    places = step * np.arange(count)[:, None] + np.arange(size)
    windows = emit(relax.op.take(data, relax.const(places.reshape(-1).astype("int64")), axis=axis))
    split = [*shape[:axis], count, size, *shape[axis + 1 :]]
    order = [i for i in range(len(split)) if i != axis + 1] + [axis + 1]
    return emit(relax.op.permute_dims(emit(relax.op.reshape(windows, split)), order))


def _grid_sampler(node: torch.fx.Node, importer: Any) -> relax.Var:
    """Convert ``grid_sample``, whose coordinates Relax has on the second axis."""
    data, grid, method, padding, aligned = importer.retrieve_args(node)
    emit = importer.block_builder.emit
    return emit(
        relax.op.image.grid_sample(
            data,
            emit(relax.op.permute_dims(grid, [0, 3, 1, 2])),
            method=("bilinear", "nearest", "bicubic")[method],
            layout="NCHW",
            padding_mode=("zeros", "border", "reflection")[padding],
            align_corners=aligned,
        )
    )


def _group_norm(node: torch.fx.Node, importer: Any) -> relax.Expr:
    """Convert ``native_group_norm``, which may have neither weights nor a bias."""
    data, weight, bias, _, channels, _, groups, epsilon = importer.retrieve_args(node)
    dtype, emit = data.ty.dtype.dtype, importer.block_builder.emit
    weight = relax.const(np.ones(channels, dtype)) if weight is None else weight
    bias = relax.const(np.zeros(channels, dtype)) if bias is None else bias
    axes = list(range(2, len(importer.shape_of(data))))
    result = emit(relax.op.nn.group_norm(data, weight, bias, groups, 1, axes, epsilon))
    _check_values_alone(node)
    return relax.Tuple([result])


def _scatter_add(node: torch.fx.Node, importer: Any) -> relax.Var:
    data, axis, places, source = importer.retrieve_args(node)
    scattered = relax.op.scatter_elements(data, places, source, axis=axis, reduction="add")
    return importer.block_builder.emit(scattered)


def _max_pool(node: torch.fx.Node, importer: Any) -> relax.Expr:
    """Convert ``max_pool2d_with_indices`` where its indices are not read."""
    _check_values_alone(node)
    return importer._max_pool2d_with_indices(node)


def _adaptive_max_pool(node: torch.fx.Node, importer: Any) -> relax.Expr:
    """Convert ``adaptive_max_pool2d``: windows of several sizes, filled up by repetition."""
    data, sizes = importer.retrieve_args(node)
    emit, value = importer.block_builder.emit, data
    for axis, count in zip((-2, -1), sizes, strict=True):
        shape = [int(size) for size in importer.shape_of(value)]
        axis %= len(shape)
        begins = np.arange(count) * shape[axis] // count
        ends = -(-(np.arange(count) + 1) * shape[axis] // count)
        longest = int((ends - begins).max())
        places = np.minimum(begins[:, None] + np.arange(longest), ends[:, None] - 1)
        taken = relax.op.take(value, relax.const(places.reshape(-1)), axis=axis)
        split = [*shape[:axis], count, longest, *shape[axis + 1 :]]
        value = emit(relax.op.max(emit(relax.op.reshape(emit(taken), split)), axis + 1))
    _check_values_alone(node)
    return relax.Tuple([value])


def _check_values_alone(node: torch.fx.Node) -> None:
    """Raise ModelError if more than the first of a node's results is read."""
    if any(reader.target is not operator.getitem or reader.args[1] != 0 for reader in node.users):
        raise ModelError(
            f"The model reads more than the first result of {node.target}, which is not supported; "
            "export a model that does not."
        )


OPERATORS: dict[str, Convert] = {
    ATTENTION: attention,
    "adaptive_max_pool2d.default": _adaptive_max_pool,
    "amax.default": _extreme(relax.op.max),
    "amin.default": _extreme(relax.op.min),
    "grid_sampler_2d.default": _grid_sampler,
    "index.Tensor": _index,
    "max_pool2d_with_indices.default": _max_pool,
    "dequantize_per_channel.default": dequantize_channels,
    "dequantize_per_tensor.default": dequantize,
    "min.dim": _min_dim,
    "native_group_norm.default": _group_norm,
    "quantize_per_tensor.default": quantize,
    "scatter_add.default": _scatter_add,
    "unfold.default": _unfold,
    **RECURRENT,
}
"""Conversions by the names of PyTorch's operators."""
