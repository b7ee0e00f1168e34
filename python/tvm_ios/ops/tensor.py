# SPDX-License-Identifier: Apache-2.0
"""Tensors as kernels see them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import tvm_ffi

from ..sizes.size import AnyShape, AnySize


@dataclass(frozen=True)
class TensorSpec:
    """A tensor in memory; sizes may be open.

    Attributes
    ----------
    shape : tuple of sizes
    dtype : str
    strides : tuple of sizes or None
        How many elements lie from one element of each axis to the next; None if row-major.
    """

    shape: AnyShape
    dtype: str = "float32"
    strides: AnyShape | None = None

    @property
    def num_elements(self) -> AnySize:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def steps(self) -> AnyShape:
        """How many elements lie from one element of each axis to the next."""
        if self.strides is not None:
            return self.strides
        return tuple(math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))

    @property
    def num_bytes(self) -> AnySize:
        """The size in bytes."""
        return self.num_elements * (int("".join(filter(str.isdigit, self.dtype)) or 8) // 8)


def encoded(spec: TensorSpec) -> tuple[int, ...]:
    """Return a tensor's type code, bits, rank and sizes, as the library reads them.

    An open size is -1.
    """
    dtype = tvm_ffi.dtype(spec.dtype)
    sizes = (size if isinstance(size, int) else -1 for size in spec.shape)
    return (dtype.type_code, dtype.bits, len(spec.shape), *sizes)
