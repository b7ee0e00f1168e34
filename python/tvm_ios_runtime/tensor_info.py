# SPDX-License-Identifier: Apache-2.0
"""What a library says of its inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm_ffi


@dataclass(frozen=True)
class TensorInfo:
    """The name, shape and type of an input or output; None is a dimension known at run time."""

    name: str
    shape: tuple[int | None, ...]
    dtype: str

    @staticmethod
    def from_metadata(described: Mapping[str, Any]) -> TensorInfo:
        """Return what an entry of a library's metadata says."""
        return TensorInfo(described["name"], tuple(described["shape"]), described["dtype"])

    def fits(self, array: np.ndarray | tvm_ffi.Tensor) -> bool:
        """Return whether ``array`` has this type and shape."""
        return (
            array.dtype == self.dtype
            and array.ndim == len(self.shape)
            and all(e in (None, n) for e, n in zip(self.shape, array.shape, strict=True))
        )

    def check(self, array: np.ndarray | tvm_ffi.Tensor, verb: str = "takes") -> None:
        """Raise ValueError unless ``array`` has this type and shape.

        Parameters
        ----------
        array : numpy.ndarray or tvm_ffi.Tensor
        verb : str
            What the model does with it.
        """
        if not self.fits(array):
            found = f"{array.dtype}{list(array.shape)}"
            raise ValueError(f"The model {verb} {self}; got {found}.")

    def __str__(self) -> str:
        sizes = ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.name} {self.dtype}[{sizes}]"
