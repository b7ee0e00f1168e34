# SPDX-License-Identifier: Apache-2.0
"""Types of tensors whose elements are exchanged as their bits, in integers of as many bytes.

NumPy has these types by ``ml_dtypes``, but exports none of them by DLPack. TVM computes in bfloat16
alone. A library keeps an element of a narrower type in a byte, as ``ml_dtypes`` does, and its
metadata says which type it is.
"""

from __future__ import annotations

import numpy as np

BFLOAT16 = "bfloat16"

NARROW = {
    "float8_e4m3fn": "uint8",
    "float8_e4m3fnuz": "uint8",
    "float8_e5m2": "uint8",
    "float8_e5m2fnuz": "uint8",
    "float8_e8m0fnu": "uint8",
    "float4_e2m1fn": "uint8",
    "uint4": "uint8",
    "uint2": "uint8",
    "int4": "int8",
    "int2": "int8",
}
"""Types that only libraries' inputs and outputs have, and in which types these hold them."""

BITS = {BFLOAT16: "uint16", **NARROW}
"""The types that NumPy exchanges instead of its own."""


def numpy_dtype(name: str) -> np.dtype:
    """Return NumPy's type of a name."""
    if name in BITS:
        import ml_dtypes  # with which apache-tvm comes

        dtype: np.dtype = np.dtype(getattr(ml_dtypes, name))
        return dtype
    return np.dtype(name)


def tensor_dtype(name: str) -> str:
    """Return the type that a library's tensors of a type have."""
    return NARROW.get(name, name)
