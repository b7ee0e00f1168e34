# SPDX-License-Identifier: Apache-2.0
"""NumPy's arrays as tensors, and back.

NumPy exports none of the types of ``ml_dtypes``, no array that is read-only unless it is asked for
one, and none whose strides are not multiples of its elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import tvm_ffi

from .bits import BITS, numpy_dtype
from .tensor_info import TensorInfo

ALIGNMENT = 64  # bytes; TVM's code assumes it of every tensor
_DLPACK = (1, 0)  # the first version in which a tensor may be read-only


def empty(shape: Sequence[int], dtype: np.typing.DTypeLike) -> np.ndarray:
    """Return an uninitialised array, aligned such that a model reads it in place."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + ALIGNMENT, "uint8")
    begin = -address_of(memory) % ALIGNMENT
    return memory[begin : begin + size].view(dtype).reshape(shape)


def address_of(array: np.ndarray) -> int:
    """Return where an array begins, in less time than by ``ctypes``."""
    address: int = array.__array_interface__["data"][0]
    return address


def empty_for(info: TensorInfo) -> np.ndarray:
    """Return an uninitialised array for an output of static shape, aligned as :func:`empty`'s."""
    return empty(info.shape, numpy_dtype(info.dtype))  # type: ignore[arg-type]


def to_array(tensor: tvm_ffi.Tensor) -> np.ndarray:
    """Return a view of a tensor as a writable array; NumPy before 2.1 makes views read-only."""
    array = np.from_dlpack(tensor)
    return array if array.flags.writeable else array.copy()


def exported(info: TensorInfo, array: np.ndarray, verb: str = "takes") -> np.ndarray:
    """Return what NumPy exports of an array: its bits, where its type must be one of ml_dtypes."""
    if info.dtype not in BITS:
        return array
    info.check(array, verb)
    return array.view(BITS[info.dtype])


def readable(info: TensorInfo, array: np.ndarray, *, copies: bool) -> tvm_ffi.Tensor | np.ndarray:
    """Return an input of any kind as C++ takes it.

    Parameters
    ----------
    info : TensorInfo
    array : numpy.ndarray
    copies : bool
        Whether an array of which NumPy exports no view is copied.

    Raises
    ------
    ValueError
        If it has another type or shape, or would have to be copied and may not be.
    """
    info.check(array)
    bits = exported(info, array)
    try:
        return tvm_ffi.from_dlpack(bits.__dlpack__(max_version=_DLPACK))
    except (BufferError, TypeError) as error:  # NumPy before 2.1 does not know the version
        if copies:
            return np.array(bits, order="C")
        raise ValueError(
            f"The array for {info} is read-only or has unusual strides; copy it."
        ) from error


def check_outputs(
    infos: Sequence[TensorInfo], outputs: Sequence[np.ndarray], inputs: Sequence[np.ndarray]
) -> None:
    """Raise ValueError unless a run can write its outputs to these arrays."""
    taken = list(inputs)
    for info, array in zip(infos, outputs, strict=True):
        info.check(array, "returns")
        if not array.flags.writeable:
            raise ValueError(f"The array for {info} is read-only; give one that is not.")
        if not array.flags.c_contiguous:
            raise ValueError(f"The array for {info} is not contiguous; give one that is.")
        if any(np.may_share_memory(array, other) for other in taken):
            raise ValueError(
                f"The array for {info} overlaps an input or another output; give one that does not."
            )
        taken.append(array)
