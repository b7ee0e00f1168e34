# SPDX-License-Identifier: Apache-2.0
"""Tensors whose length along an axis is counted while the network runs.

Such a tensor lies in one of the largest length that there may be, with elements behind it that do
not count. What is computed of it is computed of these elements, too, as long as no other element
depends on them.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import relax

from ...sizes.size import AnySize
from ..emitter import shape_of


@dataclass(frozen=True)
class Counted:
    """A tensor whose length along an axis is counted.

    Attributes
    ----------
    tensor : relax.Expr
        Of the largest length. Indices behind those that count are valid.
    count : relax.Expr
        The length, int64 without axes.
    axis : int
    """

    tensor: relax.Expr
    count: relax.Expr
    axis: int

    @property
    def most(self) -> AnySize:
        """The largest length."""
        return shape_of(self.tensor)[self.axis]
