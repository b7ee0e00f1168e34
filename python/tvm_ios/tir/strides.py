# SPDX-License-Identifier: Apache-2.0
"""Tensors read by strides."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Strides:
    """Where a tensor of ``size`` elements is read for an element of the result.

    Attributes
    ----------
    size : int
    steps : tuple of int
        Elements to go on by for each axis of the result.
    offset : int
        Of the result's first element.
    """

    size: int
    steps: tuple[int, ...]
    offset: int = 0
