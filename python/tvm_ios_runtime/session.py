# SPDX-License-Identifier: Apache-2.0
"""A virtual machine of a loaded model, and the tensors that belong to it: one thread's.

Two threads that run one machine corrupt its registers. Machines of one library share its weights,
which are data of the file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tvm_ffi

from .memory import DeviceMemory

ALIGNMENT = 64  # bytes: what TVM's code takes for granted of every tensor

Extent = tuple[int, int]
"""Where a tensor lies: the address of its first byte, and that behind its last."""


class Session:
    """What a thread runs a model with.

    Parameters
    ----------
    machine : tvm_ffi.Module
        Owns what its functions work on.
    function : str
    memory : DeviceMemory, optional
        Of a model for a GPU.
    """

    def __init__(
        self, machine: tvm_ffi.Module, function: str, memory: DeviceMemory | None = None
    ) -> None:
        self._machine, self._function = machine, machine[function]
        self.memory = memory
        self._copies: dict[int, np.ndarray] = {}
        self._first: list[tvm_ffi.Tensor] | None = None
        self._kept: frozenset[int] | None = None

    def tensor(self, index: int, array: np.ndarray) -> tvm_ffi.Tensor:
        """An input: the array where it lies, or a copy that the next call overwrites."""
        if not array.size:  # NumPy gives it any strides, and TVM takes it with its own only
            device = tvm_ffi.device("cpu")
            return _allocated(array.shape, tvm_ffi.dtype(str(array.dtype)), device)
        flags = array.flags
        usable = flags.c_contiguous and flags.writeable and array.ctypes.data % ALIGNMENT == 0
        if not usable:
            copy = self._copies.get(index)
            if copy is None or copy.shape != array.shape:
                copy = self._copies[index] = empty(array.shape, array.dtype)
            np.copyto(copy, array)
            array = copy
        return tvm_ffi.from_dlpack(array)

    def run(self, inputs: Sequence[tvm_ffi.Tensor]) -> list[tvm_ffi.Tensor]:
        """The results, each in memory that is nobody else's.

        A network may return what it was given, a constant, or a value twice: of these the caller
        gets copies.
        """
        results = list(leaves(self._function(*inputs)))
        kept, taken = self._kept_by_model(results), [_extent(tensor) for tensor in inputs]
        owned = []
        for i, result in enumerate(results):
            extent = _extent(result)
            if i in kept or any(_overlap(extent, other) for other in taken):
                owned.append(self._copied(result))
            else:
                taken.append(extent)
                owned.append(result)
        return owned

    def _kept_by_model(self, results: list[tvm_ffi.Tensor]) -> frozenset[int]:
        """The results whose memory the model keeps, such as constants.

        It is the same in two runs, although the results of the first are still there in the second.
        Until that is known, it may be any of them.
        """
        if self._first is None:
            self._first = results
            return frozenset(range(len(results)))
        if self._kept is None:
            pairs = enumerate(zip(self._first, results, strict=True))
            self._kept = frozenset(i for i, (a, b) in pairs if a.data_ptr() == b.data_ptr())
            self._first = []
        return self._kept

    def _copied(self, tensor: tvm_ffi.Tensor) -> tvm_ffi.Tensor:
        if self.memory is not None:
            return self.memory.copied(tensor)
        copy = _allocated(tensor.shape, tensor.dtype, tensor.device)
        tvm_ffi.get_global_func("runtime.TVMTensorCopyFromTo")(tensor, copy)
        return copy


def leaves(result: Any) -> Iterable[tvm_ffi.Tensor]:
    """The tensors of nested tuples."""
    if isinstance(result, tvm_ffi.Tensor):
        yield result
    else:
        for item in result:
            yield from leaves(item)


def empty(shape: Sequence[int], dtype: np.typing.DTypeLike) -> np.ndarray:
    """An uninitialised array, aligned so that a model reads it where it is."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + ALIGNMENT, "uint8")
    begin = -memory.ctypes.data % ALIGNMENT
    return memory[begin : begin + size].view(dtype).reshape(shape)


def _allocated(
    shape: Sequence[int], dtype: tvm_ffi.dtype, device: tvm_ffi.Device
) -> tvm_ffi.Tensor:
    allocate = tvm_ffi.get_global_func("runtime.TVMTensorAllocWithScope")
    return allocate(tvm_ffi.Shape(shape), dtype, device, None)


def _extent(tensor: tvm_ffi.Tensor) -> Extent:
    begin = tensor.data_ptr()
    return begin, begin + math.prod(tensor.shape) * tensor.dtype.itemsize


def _overlap(one: Extent, other: Extent) -> bool:
    return one[0] < other[1] and other[0] < one[1]
