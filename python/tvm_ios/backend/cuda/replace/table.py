# SPDX-License-Identifier: Apache-2.0
"""The replacement rules of CUDA devices."""

from __future__ import annotations

from ....lowering.replacements.rule import Rule
from ..kernels.kernel import CudaKernel
from ..rules.config import CudaLoweredGraph
from .merge import MERGE_CONVOLUTIONS, MERGE_DENSE
from .sums import ADD_CONVOLUTIONS

REPLACEMENTS: tuple[Rule[CudaLoweredGraph, CudaKernel], ...] = (
    MERGE_CONVOLUTIONS,
    ADD_CONVOLUTIONS,
    MERGE_DENSE,
)
"""All rules. No two of them match the same operators."""
