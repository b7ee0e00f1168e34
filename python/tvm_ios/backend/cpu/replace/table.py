# SPDX-License-Identifier: Apache-2.0
"""The replacement rules of CPUs."""

from __future__ import annotations

from ....lowering.replacements.rule import Rule
from ..kernels.kernel import Kernel
from ..rules.base import CpuLoweredGraph
from .convolution_add import CONVOLUTION_ADD
from .convolutions import MERGE_CONVOLUTIONS
from .dense import MERGE_DENSE

RULES: tuple[Rule[CpuLoweredGraph, Kernel], ...] = (
    MERGE_CONVOLUTIONS,
    CONVOLUTION_ADD,
    MERGE_DENSE,
)
"""All rules. No two of them match the same operators."""
