# SPDX-License-Identifier: Apache-2.0
"""The virtual machine of a loaded model and its tensors, owned by one thread.

Two threads that run one machine corrupt its registers. Machines of one library share its weights,
which are data of the file.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tvm_ffi

from . import arrays
from .arrays import ALIGNMENT, empty
from .bits import BFLOAT16, NARROW, numpy_dtype
from .memory import DeviceMemory

_PLAIN = frozenset(map(np.dtype, ("bool", "float32", "float64", "int32", "int64", "uint8")))
"""Types that TVM has as NumPy does."""
_PLAIN_NAMES = frozenset(dtype.name for dtype in _PLAIN)

Extent = tuple[int, int]
"""The memory range of a tensor: the address of its first byte, and the one after its last."""


class Sessions:
    """The sessions of one thread, one for each function that it has run.

    Parameters
    ----------
    machine : tvm_ffi.Module
        The virtual machine.
    functions : sequence of str
        The names of the functions.
    memory : DeviceMemory, optional
        The device memory of a model for a GPU.
    """

    def __init__(
        self,
        machine: tvm_ffi.Module,
        functions: Sequence[str],
        memory: DeviceMemory | None = None,
    ) -> None:
        self._machine, self._functions, self.memory = machine, functions, memory
        self._known: dict[int, Session] = {}

    def __getitem__(self, number: int) -> Session:
        session = self._known.get(number)
        if session is None:
            session = Session(self._machine, self._functions[number], self.memory)
            self._known[number] = session
        return session


class Session:
    """The state with which one thread runs a function.

    Parameters
    ----------
    machine : tvm_ffi.Module
        The virtual machine. It owns the memory that its functions use.
    function : str
        The name of the function to run.
    memory : DeviceMemory, optional
        The device memory of a model for a GPU.
    """

    def __init__(
        self, machine: tvm_ffi.Module, function: str, memory: DeviceMemory | None = None
    ) -> None:
        self._machine, self._function = machine, machine[function]
        self.memory = memory
        self._copies: dict[int, np.ndarray] = {}
        self._first: list[tvm_ffi.Tensor] | None = None
        self._kept: frozenset[int] | None = None
        self._sizes: dict[tvm_ffi.dtype, int] = {}

    def tensor(self, index: int, array: np.ndarray) -> tvm_ffi.Tensor:
        """Return an input as a view of the array, or as a copy that the next call overwrites."""
        return self._placed(index, array)[0]

    def _placed(self, index: int, array: np.ndarray) -> tuple[tvm_ffi.Tensor, np.ndarray]:
        """Return an input, and the array whose memory it is."""
        dtype = array.dtype
        if dtype not in _PLAIN:  # whose names take NumPy long
            array = array.view(NARROW.get(dtype.name, dtype))
        if not array.size:  # its strides are arbitrary in NumPy, and TVM accepts only its own
            device = tvm_ffi.device("cpu")
            return _allocated(array.shape, tvm_ffi.dtype(str(array.dtype)), device), array
        if dtype not in _PLAIN and array.dtype.name == BFLOAT16:
            return from_bfloat16(array), array
        flags = array.flags
        if flags.c_contiguous and flags.writeable:
            tensor = tvm_ffi.from_dlpack(array)
            if tensor.data_ptr() % ALIGNMENT == 0:
                return tensor, array
        copy = self._copies.get(index)
        if copy is None or copy.shape != array.shape:
            copy = self._copies[index] = empty(array.shape, array.dtype)
        np.copyto(copy, array)
        return tvm_ffi.from_dlpack(copy), copy

    def run_on_host(self, inputs: Sequence[np.ndarray], dtypes: Sequence[str]) -> list[np.ndarray]:
        """Run a model for a CPU on arrays, and return the results as arrays of these types.

        Each has memory of its own, as in :meth:`run`.
        """
        placed = [self._placed(i, array) for i, array in enumerate(inputs)]
        results = list(leaves(self._function(*(tensor for tensor, _ in placed))))
        kept, taken = self._kept_by_model(results), [array for _, array in placed]
        owned = []
        for i, (result, dtype) in enumerate(zip(results, dtypes, strict=True)):
            array = to_array(result, dtype)
            if i in kept or any(np.may_share_memory(array, other) for other in taken):
                array = array.copy()
            else:
                taken.append(array)
            owned.append(array)
        return owned

    def run(self, inputs: Sequence[tvm_ffi.Tensor]) -> list[tvm_ffi.Tensor]:
        """Run the model and return the results, each in memory of its own.

        A network may return an input, a constant, or the same value twice. The caller gets copies
        of these.
        """
        results = list(leaves(self._function(*inputs)))
        kept, taken = self._kept_by_model(results), [self._extent(x) for x in inputs]
        owned = []
        for i, result in enumerate(results):
            extent = self._extent(result)
            if i in kept or any(_overlap(extent, other) for other in taken):
                owned.append(self._copied(result))
            else:
                taken.append(extent)
                owned.append(result)
        return owned

    def _kept_by_model(self, results: list[tvm_ffi.Tensor]) -> frozenset[int]:
        """Return the indices of results whose memory the model keeps, such as constants.

        Their addresses are equal in two runs although the results of the first run are still alive.
        Until a second run, any result may be one.
        """
        if self._first is None:
            self._first = results
            return frozenset(range(len(results)))
        if self._kept is None:
            pairs = enumerate(zip(self._first, results, strict=True))
            self._kept = frozenset(i for i, (a, b) in pairs if a.data_ptr() == b.data_ptr())
            self._first = []
        return self._kept

    def _extent(self, tensor: tvm_ffi.Tensor) -> Extent:
        begin, dtype = tensor.data_ptr(), tensor.dtype
        size = self._sizes.get(dtype)
        if size is None:
            size = self._sizes[dtype] = dtype.itemsize  # which takes longer than to look it up
        return begin, begin + math.prod(tensor.shape) * size

    def _copied(self, tensor: tvm_ffi.Tensor) -> tvm_ffi.Tensor:
        if self.memory is not None:
            return self.memory.copied(tensor)
        copy = _allocated(tensor.shape, tensor.dtype, tensor.device)
        tvm_ffi.get_global_func("runtime.TVMTensorCopyFromTo")(tensor, copy)
        return copy


def from_bfloat16(array: np.ndarray) -> tvm_ffi.Tensor:
    """Return a copy of an array whose type DLPack of NumPy does not know."""
    array = np.asarray(array, order="C")
    device = tvm_ffi.device("cpu")
    tensor = _allocated(array.shape, tvm_ffi.dtype(BFLOAT16), device)
    ctypes.memmove(tensor.data_ptr(), array.ctypes.data, array.nbytes)
    return tensor


def to_array(tensor: tvm_ffi.Tensor, dtype: str) -> np.ndarray:
    """Return a result as a writable array of the type that the library's metadata says."""
    if dtype in _PLAIN_NAMES:
        return arrays.to_array(tensor)
    if str(tensor.dtype) != BFLOAT16:
        array = arrays.to_array(tensor)
        return array.view(numpy_dtype(dtype)) if dtype in NARROW else array
    array = np.empty(tuple(tensor.shape), numpy_dtype(BFLOAT16))
    ctypes.memmove(array.ctypes.data, tensor.data_ptr(), array.nbytes)
    return array


def leaves(result: Any) -> Iterable[tvm_ffi.Tensor]:
    """Yield the tensors of nested tuples."""
    if isinstance(result, tvm_ffi.Tensor):
        yield result
    else:
        for item in result:
            yield from leaves(item)


def _allocated(
    shape: Sequence[int], dtype: tvm_ffi.dtype, device: tvm_ffi.Device
) -> tvm_ffi.Tensor:
    allocate = tvm_ffi.get_global_func("runtime.TVMTensorAllocWithScope")
    return allocate(tvm_ffi.Shape(shape), dtype, device, None)


def _overlap(one: Extent, other: Extent) -> bool:
    return one[0] < other[1] and other[0] < one[1]
