# SPDX-License-Identifier: Apache-2.0
"""Memory layouts of feature maps.

A blocked feature map is ``[N, ceil(C / b), H * W, b]``, row-major, or if ``N`` is open with the
images of a block one after another: then a concatenation along the channels is its parts, one after
another, for any number of images. The ``b`` channels of a block, the lanes of
one vector, are neighbours in memory, so that a kernel computes ``b`` output channels in one
register. Lanes beyond ``C`` hold undefined values, and readers must ignore them. Height and width
are one axis because a pointwise kernel does not distinguish rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....ops.tensor import TensorSpec
from ....sizes.size import AnySize, Size
from ..isa.bfloat16 import nearest


@dataclass(frozen=True)
class Layout:
    """A memory layout: ``block`` channels together, or row-major as in Relax if it is 0."""

    block: int = 0

    def spec(self, shape: Sequence[AnySize], dtype: str = "float32") -> TensorSpec:
        """Return the tensor in memory that holds a logical tensor of ``shape``."""
        if not self.block:
            return TensorSpec(tuple(shape), dtype)
        n, c, h, w = shape
        assert isinstance(c, int), "the number of channels is known"
        sizes = (n, blocks(c, self.block), h * w, self.block)
        if not isinstance(n, Size):
            return TensorSpec(sizes, dtype)
        plane = h * w * self.block
        return TensorSpec(sizes, dtype, (plane, n * plane, self.block, 1))

    def pack(self, data: np.ndarray) -> np.ndarray:
        """Copy a row-major array ``[N, C, H, W]`` into this layout."""
        if not self.block:
            return data
        n, c, h, w = data.shape
        padded = np.zeros((n, blocks(c, self.block) * self.block, h * w), data.dtype)
        padded[:, :c] = data.reshape(n, c, h * w)
        split = padded.reshape(n, -1, self.block, h * w)
        return np.ascontiguousarray(split.transpose(0, 1, 3, 2))


PLAIN = Layout()


def blocks(channels: int, block: int) -> int:
    """Return how many blocks hold ``channels`` channels; the last may be partly filled."""
    return -(-channels // block)


def pack_bf16_dot2(weights: np.ndarray, in_block: int, out_block: int, groups: int) -> np.ndarray:
    """Pack convolution weights as :func:`pack_weights` does, rounded to operands of bf16 dot2.

    Returns
    -------
    numpy.ndarray
        Bits of bfloat16, ``[ceil(K / out_block), ceil(C / groups / in_block), R, in_block / 2, S,
        out_block, 2]``.
    """
    return brought_together(nearest(pack_weights(weights, in_block, out_block, groups)), 3, 2)


def pack_int8_quads(weights: np.ndarray, in_block: int, out_block: int, groups: int) -> np.ndarray:
    """Pack convolution weights of int8 as :func:`pack_weights` does, as quads.

    Returns
    -------
    numpy.ndarray
        int8 ``[ceil(K / out_block), ceil(C / groups / in_block), R, in_block / 4, S, out_block,
        4]``.
    """
    return brought_together(pack_weights(weights, in_block, out_block, groups), 3, 4)


def brought_together(packed: np.ndarray, axis: int, count: int) -> np.ndarray:
    """Bring every ``count`` neighbours along an axis together, in a last axis of their own."""
    *before, size = packed.shape[: axis + 1]
    split = packed.reshape(*before, size // count, count, *packed.shape[axis + 1 :])
    return np.ascontiguousarray(np.moveaxis(split, axis + 1, -1))


def pack_lowest(weights: np.ndarray, low: int, out_block: int) -> np.ndarray:
    """Return what ``low`` in all channels adds at each tap, and behind these at all of a row.

    Parameters
    ----------
    weights : numpy.ndarray
        int8 ``[K, C / groups, R, S]``.
    low : int
    out_block : int
        Channels of the output that lie together.

    Returns
    -------
    numpy.ndarray
        int32 ``[ceil(K / out_block), R, S + 1, out_block]``.
    """
    k, _, r, s = weights.shape
    padded = np.zeros((blocks(k, out_block) * out_block, r, s + 1), "int32")
    padded[:k, :, :s] = low * weights.sum(axis=1, dtype="int32")
    padded[:, :, s] = padded.sum(axis=2)
    split = padded.reshape(-1, out_block, r, s + 1)
    return np.ascontiguousarray(split.transpose(0, 2, 3, 1))


def pack_weights(weights: np.ndarray, in_block: int, out_block: int, groups: int) -> np.ndarray:
    """Pack convolution weights for the register-tiled kernel.

    Parameters
    ----------
    weights : numpy.ndarray
        ``[K, C / groups, R, S]``.
    in_block, out_block : int
        Channels of the input (1 if it is row-major) and of the output that lie together.
    groups : int
        If above 1, ``K / groups`` must be a multiple of ``out_block``.

    Returns
    -------
    numpy.ndarray
        ``[ceil(K / out_block), ceil(C / groups / in_block), R, in_block, S, out_block]``, the order
        in which the kernel reads them.
    """
    k, c, r, s = weights.shape
    assert groups == 1 or (k // groups) % out_block == 0, "an output block lies in one group"
    kb, cb = blocks(k, out_block), blocks(c, in_block)
    padded = np.zeros((kb * out_block, cb * in_block, r, s), weights.dtype)
    padded[:k, :c] = weights
    split = padded.reshape(kb, out_block, cb, in_block, r, s)
    return np.ascontiguousarray(split.transpose(0, 2, 4, 3, 5, 1))
