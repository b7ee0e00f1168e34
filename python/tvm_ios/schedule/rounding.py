# SPDX-License-Identifier: Apache-2.0
"""How far a network's answers in half precision are from those in float32."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

BF16 = "bf16"
"""How a schedule names a kernel that multiplies bfloat16, two at a time (dot2)."""

WIDENED = f"{BF16}-"
"""How a schedule begins the name of a kernel that reads bfloat16, and multiplies float32. The name
ends as that of the kernel that reads float32."""

INT8 = "int8"
"""How a schedule names a kernel that multiplies bytes, four at a time (dot4)."""


def rounds(kernel: str | None) -> bool:
    """Return whether a kernel of this name reads numbers that are rounded to bfloat16."""
    return kernel is not None and (kernel == BF16 or kernel.startswith(WIDENED))


@dataclass(frozen=True)
class Rounding:
    """The differences on random inputs.

    Attributes
    ----------
    error : float
        The largest difference of an output, in shares of the largest magnitude of that output.
    same_top : float
        The share of the rows of the first output, along its last axis, whose largest element is the
        same: the share of images with the same top class.
    tolerance : float
        The largest error that was allowed.
    """

    error: float
    same_top: float
    tolerance: float

    def __post_init__(self) -> None:
        if not all(
            math.isfinite(x) and x >= 0 for x in (self.error, self.same_top, self.tolerance)
        ):
            raise ValueError("'rounding' is not an error, a share and a tolerance")

    @staticmethod
    def from_dict(data: Any) -> Rounding:
        """Create a rounding from JSON's types; raise ValueError or the like if it is none."""
        if not isinstance(data, dict):
            raise ValueError("'rounding' is not an object")
        return Rounding(*(float(data[name]) for name in ("error", "same_top", "tolerance")))

    def __str__(self) -> str:
        return (
            f"error {self.error:.2g} of the largest output ({self.tolerance:.2g} allowed), "
            f"same top class in {self.same_top:.0%}"
        )
