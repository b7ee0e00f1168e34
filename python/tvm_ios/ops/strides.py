# SPDX-License-Identifier: Apache-2.0
"""Strided access to tensors."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Strides:
    """The positions at which a tensor of ``size`` elements is read for each element of the result.

    Attributes
    ----------
    size : int
    steps : tuple of int
        Stride in elements for each axis of the result.
    offset : int
        Position of the result's first element.
    """

    size: int
    steps: tuple[int, ...]
    offset: int = 0
