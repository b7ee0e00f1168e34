# SPDX-License-Identifier: Apache-2.0
"""The conditions under which factors and offsets may move past an operator, for every rewrite.

Moving them changes the order of rounding. In float32 and float64 the result is as exact as before,
as long as no value leaves the range of the type: a factor of 1e-30 times weights of 1e-30
underflows to zero as one number, but not as two. In float16 and bfloat16 values easily leave the
range (300 times 300 is infinity in float16), and integers have no fractions, so nothing is moved
there.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

_WIDE = ("float32", "float64")


def is_wide(dtype: str) -> bool:
    """Return whether sums and products of this type may be reordered."""
    return dtype in _WIDE


def scale(weights: np.ndarray, factors: np.ndarray | np.float64) -> np.ndarray | None:
    """Return the weights times factors, which broadcast, in the type of the weights.

    None if the type does not allow it, or if a product leaves the range.
    """
    if not is_wide(str(weights.dtype)):
        return None
    with np.errstate(all="ignore"):
        exact = weights.astype("float64") * factors
        product = exact.astype(weights.dtype)
    return product if in_range(product, exact) else None


def in_range(values: np.ndarray, exact: np.ndarray) -> bool:
    """Return whether ``values`` are finite, and normal numbers where ``exact`` is not 0."""
    tiny = np.finfo(values.dtype).tiny
    return bool(np.all(np.isfinite(values) & ((np.abs(values) >= tiny) | (exact == 0))))


def per_channel(values: np.ndarray, rank: int, dtype: str) -> relax.Expr | None:
    """Return a constant that broadcasts along axis 1 of a tensor of ``rank`` axes.

    None if the data type cannot represent the values.
    """
    held = scale(np.ones(len(values), dtype), values)
    return None if held is None else relax.const(held.reshape(1, -1, *([1] * (rank - 2))), dtype)
