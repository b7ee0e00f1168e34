# SPDX-License-Identifier: Apache-2.0
"""Strided access to tensors."""

from __future__ import annotations

from dataclasses import dataclass

from ..sizes.size import AnyShape, AnySize


@dataclass(frozen=True)
class Strides:
    """The positions at which a tensor of ``size`` elements is read for each element of the result.

    Attributes
    ----------
    size : int or Size
    steps : tuple of sizes
        Stride in elements for each axis of the result.
    offset : int or Size
        Position of the result's first element.
    """

    size: AnySize
    steps: AnyShape
    offset: AnySize = 0
