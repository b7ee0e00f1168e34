# SPDX-License-Identifier: Apache-2.0
"""Kernels of matrix products: convolutions, dense layers and products proper."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from .emit import kernel
from .match_gemm import GemmMatch
from .simt import SimtBlock
from .tensor_core import FACTORS, TensorCoreBlock
from .tile import Tile


def gemm(match: GemmMatch, tile: Tile) -> tirx.PrimFunc:
    """Build a kernel of one launch that computes the product."""

    def body(buffers: Any, block: Any, thread: Any) -> None:
        arguments = (match, tile, dict(zip(match.parameters, buffers, strict=True)), thread)
        if tile.factors == "fp32":
            SimtBlock(*arguments).emit(block)
        else:
            TensorCoreBlock(FACTORS[tile.factors], *arguments).emit(block)

    return kernel(match.parameters, tile.blocks, tile.threads, body)
