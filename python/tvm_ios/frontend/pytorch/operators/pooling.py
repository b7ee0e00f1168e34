# SPDX-License-Identifier: Apache-2.0
"""Poolings of one to three dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import relax

from ....sizes.size import is_open
from ...emitter import constant, dtype_of, shape_of
from ...onnx.operators.pooling import average_pool, largest_with_places, max_pool, sum_pool
from ...onnx.operators.table import Value
from ..node_emitter import AtenEmitter
from .convolution import spread
from .table import Converter, operator

Sizes = Sequence[int]


def _window(rank: int, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes) -> Any:
    sizes = spread(kernel, rank)
    return {
        "kernel_shape": sizes,
        "strides": spread(stride, rank) if stride else sizes,
        "pads": spread(padding, rank) * 2,
        "dilations": spread(dilation, rank),
    }


def _with_batch(emit: AtenEmitter, data: relax.Expr, rank: int) -> relax.Expr:
    """Return the data with a batch of one, if it has none."""
    shape = shape_of(data)
    return data if len(shape) == rank + 2 else emit.reshape(data, [1, *shape])


def _average(rank: int) -> Converter:
    def convert(
        emit: AtenEmitter,
        data: relax.Expr,
        kernel: Sizes,
        stride: Sizes,
        padding: Sizes,
        ceil: bool,
        counts_padding: bool,
        divisor: int | None = None,
    ) -> relax.Expr:
        batched = _with_batch(emit, data, rank)
        window = _window(rank, kernel, stride, padding, [1])
        if divisor is not None:
            total = sum_pool(emit, batched, ceil_mode=int(ceil), **window)
            result = emit(relax.op.divide(total, emit.scalar(divisor, total)))
        else:
            options = {"ceil_mode": int(ceil), "count_include_pad": int(counts_padding)}
            result = average_pool(emit, batched, **options, **window)
        return emit.reshape(result, emit.shape)

    return convert


def _max(rank: int, *, places: bool) -> Converter:
    def convert(
        emit: AtenEmitter,
        data: relax.Expr,
        kernel: Sizes,
        stride: Sizes,
        padding: Sizes,
        dilation: Sizes,
        ceil: bool,
    ) -> Value:
        batched = _with_batch(emit, data, rank)
        window = _window(rank, kernel, stride, padding, dilation)
        if places and emit.wants(1):
            results = largest_with_places(emit, batched, ceil_mode=int(ceil), **window)
            return tuple(emit.reshape(x, emit.shape) for x in results)
        result = emit.called(max_pool, batched, ceil_mode=int(ceil), **window)
        result = emit.reshape(result, emit.shape)
        return (result, None) if places else result

    return convert


for _rank in (1, 2, 3):
    operator(f"avg_pool{_rank}d.default")(_average(_rank))
    operator(f"max_pool{_rank}d.default")(_max(_rank, places=False))
    operator(f"max_pool{_rank}d_with_indices.default")(_max(_rank, places=True))


def _adaptive(reduce: Callable[..., relax.Expr], rank: int) -> Converter:
    """Return the converter of a pooling into windows of several sizes."""

    def convert(emit: AtenEmitter, data: relax.Expr, sizes: Sizes) -> Value:
        batched, means = _with_batch(emit, data, rank), reduce is relax.op.mean
        if not means and emit.wants(1):
            raise emit.error("returns places of windows of several sizes, which is not supported.")
        result = _in_windows(emit, batched, spread(sizes, rank), means)
        result = emit.reshape(result, emit.shape)
        return result if means else (result, None)

    return convert


def _in_windows(emit: AtenEmitter, data: relax.Expr, wanted: list[int], means: bool) -> relax.Expr:
    """Pool into as many windows along each axis as are wanted, of the same size if there are."""
    lengths = shape_of(data)[2:]
    if is_open(lengths):
        return _in_open_windows(emit, data, wanted, means)
    if list(lengths) == wanted:
        return data
    if all(n and length % n == 0 for length, n in zip(lengths, wanted, strict=True)):
        kernel = [length // n for length, n in zip(lengths, wanted, strict=True)]
        pool = average_pool if means else max_pool
        return emit.called(pool, data, kernel_shape=kernel, strides=kernel)
    if means and len(wanted) == 2:
        return emit(relax.op.nn.adaptive_avg_pool2d(data, wanted, layout="NCHW"))
    for axis, size in enumerate(wanted, 2):
        data = _pooled(emit, data, axis, size, means)
    return data


def _in_open_windows(
    emit: AtenEmitter, data: relax.Expr, wanted: list[int], means: bool
) -> relax.Expr:
    """Pool axes whose lengths stay open: whole, or images into means of several windows."""
    if set(wanted) == {1}:
        reduce = relax.op.mean if means else relax.op.max
        return emit(reduce(data, list(range(2, 2 + len(wanted))), True))
    if not means or len(wanted) != 2:
        raise emit.error("pools an axis whose length stays open, which is not supported.")
    return emit(relax.op.nn.adaptive_avg_pool2d(data, wanted, layout="NCHW"))


def _pooled(emit: AtenEmitter, data: relax.Expr, axis: int, count: int, means: bool) -> relax.Expr:
    """Pool an axis: by a product with means, or by windows filled up by repetition."""
    shape = list(shape_of(data))
    begins = np.arange(count) * shape[axis] // count
    ends = -(-(np.arange(count) + 1) * shape[axis] // count)
    if means:
        places = np.arange(shape[axis])
        inside = (places >= begins[:, None]) & (places < ends[:, None])
        weights = (inside / inside.sum(1, keepdims=True)).T.astype(dtype_of(data))
        order = [a for a in range(len(shape)) if a != axis] + [axis]
        product = emit(relax.op.matmul(emit.transpose(data, order), constant(weights)))
        return emit.transpose(product, [order.index(a) for a in range(len(shape))])
    longest = int((ends - begins).max())
    places = np.minimum(begins[:, None] + np.arange(longest), ends[:, None] - 1)
    taken = emit(relax.op.take(data, constant(places.reshape(-1).astype("int64")), axis))
    split = [*shape[:axis], count, longest, *shape[axis + 1 :]]
    return emit(relax.op.max(emit.reshape(taken, split), [axis + 1]))


for _name, _rank in (("adaptive_avg_pool1d", 1), ("_adaptive_avg_pool2d", 2),
                     ("adaptive_avg_pool2d", 2), ("_adaptive_avg_pool3d", 3)):  # fmt: skip
    operator(f"{_name}.default")(_adaptive(relax.op.mean, _rank))
for _rank in (1, 2, 3):
    operator(f"adaptive_max_pool{_rank}d.default")(_adaptive(relax.op.max, _rank))
