# SPDX-License-Identifier: Apache-2.0
"""What a library says of its inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm_ffi


@dataclass(frozen=True)
class TensorInfo:
    """The name, shape and type of an input or output.

    Attributes
    ----------
    name : str
    shape : tuple of int or None
        None is a dimension that is known at run time.
    dtype : str
    dimensions : tuple of str
        What the model calls its dimensions, the known ones by their sizes; empty if it does not.
        Those of one name have one size.
    """

    name: str
    shape: tuple[int | None, ...]
    dtype: str
    dimensions: tuple[str, ...] = ()

    @staticmethod
    def from_metadata(described: Mapping[str, Any]) -> TensorInfo:
        """Return what an entry of a library's metadata says."""
        dimensions = tuple(described.get("dimensions", ()))
        return TensorInfo(
            described["name"], tuple(described["shape"]), described["dtype"], dimensions
        )

    def fits(self, array: np.ndarray | tvm_ffi.Tensor) -> bool:
        """Return whether ``array`` has this type and shape."""
        shape = array.shape
        return array.dtype == self.dtype and (
            shape == self.shape  # nearly always, and quicker to find out
            or (
                len(shape) == len(self.shape)
                and all(e in (None, n) for e, n in zip(self.shape, shape, strict=True))
            )
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
        known = ("?" if size is None else str(size) for size in self.shape)
        sizes = ", ".join(self.dimensions or known)
        return f"{self.name} {self.dtype}[{sizes}]"


def check_dimensions(infos: Sequence[TensorInfo], arrays: Sequence[Any]) -> None:
    """Raise ValueError if dimensions of one name differ.

    Parameters
    ----------
    infos : sequence of TensorInfo
    arrays : sequence of arrays
        Of their types and ranks.
    """
    sizes: dict[str, tuple[int, str]] = {}
    for info, array in zip(infos, arrays, strict=True):
        if not info.dimensions:
            continue
        for name, size in zip(info.dimensions, array.shape, strict=False):
            known, first = sizes.setdefault(name, (size, info.name))
            if known != size:
                raise ValueError(
                    f"The dimension {name} is {known} in {first}, but {size} in {info.name}; give "
                    "inputs in which it is the same."
                )
