# SPDX-License-Identifier: Apache-2.0
"""Which factors and offsets may be moved past an operator: decided here for every rewrite.

Moving them changes the order of roundings. In float32 and float64 that is as exact as what was
there, as long as nothing leaves the range of the type: a factor of 1e-30 behind weights of 1e-30
is zero as one number, but not as two. In float16 and bfloat16 the range is left at once (300 times
300 is infinity in float16), and integers have no fractions, so nothing is moved there.
"""

from __future__ import annotations

import numpy as np

_WIDE = ("float32", "float64")


def is_wide(dtype: str) -> bool:
    """Whether sums and products of this type may be taken in another order."""
    return dtype in _WIDE


def scale(weights: np.ndarray, factors: np.ndarray | np.float64) -> np.ndarray | None:
    """Weights times factors, which broadcast, in the type of the weights.

    None where the type does not allow it, or a product leaves its range.
    """
    if not is_wide(str(weights.dtype)):
        return None
    with np.errstate(all="ignore"):
        exact = weights.astype("float64") * factors
        product = exact.astype(weights.dtype)
    return product if in_range(product, exact) else None


def in_range(values: np.ndarray, exact: np.ndarray) -> bool:
    """Whether ``values`` are finite, and are not zero or subnormal where ``exact`` is not zero."""
    tiny = np.finfo(values.dtype).tiny
    return bool(np.all(np.isfinite(values) & ((np.abs(values) >= tiny) | (exact == 0))))
