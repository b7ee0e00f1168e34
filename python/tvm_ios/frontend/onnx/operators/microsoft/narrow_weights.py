# SPDX-License-Identifier: Apache-2.0
"""Products with constant weights of 2, 4 or 8 bits, with a scale for each block of them."""

from __future__ import annotations

import math

import numpy as np
from tvm import relax

from ....emitter import constant, dtype_of, shape_of
from ...narrow import Narrow
from ...node_emitter import NodeEmitter
from ..index import gather
from ..quantization import check_scale, dequantize_linear
from ..table import TAKES, operator
from .domain import MICROSOFT, check_shape, contributed, with_bias

_WIDTHS = (2, 4, 8)
_LEAST_BLOCK = 16


def unpacked(packed: np.ndarray, bits: int) -> np.ndarray:
    """Return the numbers in bytes, the lowest bits of each first, along the last axis."""
    shifts = np.arange(0, 8, bits, dtype="uint8")
    numbers = (packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return numbers.reshape(*packed.shape[:-1], packed.shape[-1] * len(shifts))


def _check_blocks(emit: NodeEmitter, bits: int, block: int) -> None:
    if bits not in _WIDTHS:
        raise emit.error(f"has weights of {bits} bits; 2, 4 and 8 are supported.")
    if block < _LEAST_BLOCK or block & (block - 1):
        raise emit.error(f"has blocks of {block} weights; they must be a power of 2 from 16 on.")


@contributed("MatMulNBits")
def matmul_n_bits(
    emit: NodeEmitter,
    a: relax.Expr,
    b: relax.Expr,
    scales: relax.Expr,
    zero_points: relax.Expr | None = None,
    g_idx: relax.Expr | None = None,
    bias: relax.Expr | None = None,
    *,
    K: int,
    N: int,
    block_size: int,
    bits: int = 4,
    accuracy_level: int = 0,
    weight_prepacked: int = 0,
) -> relax.Expr:
    """Multiply by weights that are unpacked to float32."""
    _check_blocks(emit, bits, block_size)
    if weight_prepacked:
        raise emit.error("has weights in the order of a GPU; export them as they are.")
    if not shape_of(a) or shape_of(a)[-1] != K:
        raise emit.error(f"multiplies data of {list(shape_of(a))} by {K} rows of weights.")
    emit.allocate([N, K], "float32")
    blocks = math.ceil(K / block_size)
    packed = _of_size(emit, b, [N, blocks, block_size * bits // 8], "its weights")
    each = _of_size(emit, scales, [N, blocks], "its scales").astype("float32")
    check_scale(emit, constant(each))
    zero = _zero_points(emit, zero_points, N, blocks, bits)
    groups = _groups(emit, g_idx, zero_points, K, block_size)
    whole = unpacked(packed, bits).reshape(N, -1)[:, :K].astype("float32")
    weights = (whole - zero[:, groups]) * each[:, groups]
    wide = None if bias is None else emit.cast(bias, "float32")
    product = emit(relax.op.matmul(emit.cast(a, "float32"), constant(weights.T)))
    return emit.cast(with_bias(emit, product, wide), dtype_of(a))


def _of_size(emit: NodeEmitter, x: relax.Expr, shape: list[int], what: str) -> np.ndarray:
    """Return a constant in a shape, which some exporters leave flat."""
    found = emit.array(x, what)
    if found.size != math.prod(shape):
        raise emit.error(f"has {what} of {list(found.shape)}; they must be of {shape}.")
    return found.reshape(shape)


def _zero_points(
    emit: NodeEmitter, given: relax.Expr | None, columns: int, blocks: int, bits: int
) -> np.ndarray:
    """Return the zero point of each block as float32."""
    if given is None:
        return np.full((columns, blocks), 1 << (bits - 1), "float32")
    if dtype_of(given) != "uint8":
        return _of_size(emit, given, [columns, blocks], "its zero points").astype("float32")
    each = math.ceil(blocks * bits / 8)
    packed = _of_size(emit, given, [columns, each], "its zero points")
    return unpacked(packed, bits)[:, :blocks].astype("float32")


def _groups(
    emit: NodeEmitter,
    given: relax.Expr | None,
    zero_points: relax.Expr | None,
    depth: int,
    block: int,
) -> np.ndarray:
    """Return the block of each row whose scale it has."""
    if given is None:
        return np.arange(depth) // block
    blocks = math.ceil(depth / block)
    if zero_points is not None and dtype_of(zero_points) == "uint8":
        raise emit.error(
            "has groups with packed zero points, which is not supported; leave one out."
        )
    groups = emit.array(given, "the groups of its rows").reshape(-1)[:depth]
    if len(groups) != depth or (groups < 0).any() or (groups >= blocks).any():
        raise emit.error(f"has groups of {depth} rows that are not among its {blocks} blocks.")
    return groups


@operator("GatherBlockQuantized", domain=MICROSOFT, narrow=TAKES)
def gather_block_quantized(
    emit: NodeEmitter,
    data: relax.Expr | Narrow,
    indices: relax.Expr,
    scales: relax.Expr,
    zero_points: relax.Expr | Narrow | None = None,
    *,
    bits: int = 4,
    block_size: int = 128,
    gather_axis: int = 0,
    quantize_axis: int = 1,
) -> relax.Expr:
    """Take parts of a table, and dequantise them."""
    _check_blocks(emit, bits, block_size)
    packed = not isinstance(data, Narrow)
    if not packed:
        data, zero_points = _held(emit, data, zero_points)
    shape, ndim = shape_of(data), len(shape_of(data))
    taken, along = emit.axis(gather_axis, ndim), emit.axis(quantize_axis, ndim)
    if packed:
        if taken != 0 or along != ndim - 1 or not along:
            raise emit.error("takes bytes along other axes than the first, in blocks of the last.")
        data, zero_points = _bytes(emit, data, zero_points, shape_of(scales), bits)
        shape = shape_of(data)
    blocks = [math.ceil(n / block_size) if i == along else n for i, n in enumerate(shape)]
    check_shape(emit, scales, blocks, "scales")
    if zero_points is not None:
        check_shape(emit, zero_points, blocks, "zero points")
    parts = [data, scales, zero_points]
    if taken == along:
        whole = dequantize_linear(emit, *parts, axis=along, block_size=block_size)
        return gather(emit, whole, indices, axis=taken)
    found = [None if x is None else gather(emit, x, indices, axis=taken) for x in parts]
    place = along + (len(shape_of(indices)) - 1 if along > taken else 0)
    return dequantize_linear(emit, *found, axis=place, block_size=block_size)


def _held(
    emit: NodeEmitter, data: Narrow, zero_points: relax.Expr | Narrow | None
) -> tuple[relax.Expr, relax.Expr | None]:
    """Return numbers of 4 bits and their zero points as bytes."""
    if data.dtype not in ("int4", "uint4"):
        raise emit.error(f"takes numbers of {data.dtype}; int4, uint4 and uint8 are supported.")
    if zero_points is None:
        return data.stored, None
    if not isinstance(zero_points, Narrow) or zero_points.dtype != data.dtype:
        raise emit.error(f"has zero points of another type than {data.dtype}.")
    return data.stored, zero_points.stored


def _bytes(
    emit: NodeEmitter,
    data: relax.Expr,
    zero_points: relax.Expr | None,
    scales: tuple[int, ...],
    bits: int,
) -> tuple[relax.Expr, relax.Expr]:
    """Return packed numbers and zero points as one byte for each."""
    known = emit.array(data, "its table")
    emit.allocate([known.size, 8 // bits], "uint8")
    if zero_points is None:
        return constant(unpacked(known, bits)), emit.full(scales, 1 << (bits - 1), "uint8")
    zero = unpacked(emit.array(zero_points, "its zero points"), bits)
    return constant(unpacked(known, bits)), constant(zero[..., : scales[-1]])
