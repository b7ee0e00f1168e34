# SPDX-License-Identifier: Apache-2.0
"""Convolutions, dense layers and matrix products by rule."""

from __future__ import annotations

import tvm
from tvm import tirx

from .gemm_form import GemmForm
from .simt import simt_gemm
from .tile import Tile
from .tiles import simt_tiles


def tiles(form: GemmForm, target: tvm.target.Target, precision: str) -> tuple[Tile, ...]:
    """A handful of tiles for a product, the one that should be fastest first."""
    return simt_tiles(form, target)


def gemm(form: GemmForm, tile: Tile) -> tirx.PrimFunc:
    """The product as a kernel of one launch."""
    return simt_gemm(form, tile)
