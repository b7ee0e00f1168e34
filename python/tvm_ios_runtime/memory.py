# SPDX-License-Identifier: Apache-2.0
"""Tensors of a model on a CUDA device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tvm_ffi

from .captures import CAPTURE_LOCK
from .cuda import explained
from .streams import stream_lock

_CUDA = 2  # DLPack's number of CUDA devices
_LEGACY = 1  # DLPack's number of the default stream, CUDA's handle 0


def cuda_device(value: object) -> int | None:
    """Return the number of the CUDA device that holds a tensor of any library; None otherwise."""
    if not hasattr(value, "__dlpack_device__"):
        return None
    kind, number = value.__dlpack_device__()
    return int(number) if int(kind) == _CUDA else None


class DeviceMemory:
    """A model's tensors on a device.

    Parameters
    ----------
    device_id : int
        The GPU.

    Attributes
    ----------
    device_id : int
        The GPU.
    """

    def __init__(self, device_id: int) -> None:
        self.device_id, self._captured = device_id, False
        self._device = tvm_ffi.device("cuda", device_id)
        self._host = tvm_ffi.device("cpu", 0)
        self._allocate = tvm_ffi.get_global_func("runtime.TVMTensorAllocWithScope")
        self._copy = tvm_ffi.get_global_func("runtime.TVMTensorCopyFromTo")
        self._inputs: dict[int, tvm_ffi.Tensor] = {}

    @contextmanager
    def running(self, stream: int) -> Iterator[None]:
        """Run the model inside the ``with`` block; the first run, a graph capture, is exclusive.

        Parameters
        ----------
        stream : int
            The handle of the run's stream.

        Raises
        ------
        DeviceFailure
            If the device fails.
        """
        use = CAPTURE_LOCK.shared() if self._captured else CAPTURE_LOCK.exclusive()
        with use, explained(self.device_id), stream_lock(self.device_id).on(stream):
            yield
        self._captured = True

    @property
    def stream(self) -> int:
        """The handle of TVM's current stream in this thread."""
        handle: int = tvm_ffi.get_raw_stream(self._device)
        return handle

    def borrow(self, value: Any) -> tvm_ffi.Tensor:
        """Return a view of any library's tensor on the device, to be read on the current stream."""
        if isinstance(value, tvm_ffi.Tensor):
            return value
        return tvm_ffi.from_dlpack(value.__dlpack__(stream=self.stream or _LEGACY))

    def write(self, index: int, tensor: tvm_ffi.Tensor) -> tvm_ffi.Tensor:
        """Copy input ``index`` to device memory that the next call reuses.

        TVM copies on the default stream.
        """
        known = self._inputs.get(index)
        if known is None or known.shape != tensor.shape:
            known = self._inputs[index] = self._like(tensor, self._device)
        self._copy(tensor, known)
        return known

    def copied(self, tensor: tvm_ffi.Tensor) -> tvm_ffi.Tensor:
        """Wait for a result and return a copy of it on the device."""
        tvm_ffi.get_global_func("runtime.Device_StreamSync")(self._device, self.stream)
        result = self._like(tensor, self._device)
        self._copy(tensor, result)
        return result

    def read(self, tensor: tvm_ffi.Tensor) -> tvm_ffi.Tensor:
        """Wait for a result and return a copy of it on the host."""
        result = self._like(tensor, self._host)
        self._copy(tensor, result)
        tvm_ffi.get_global_func("runtime.Device_StreamSync")(self._device, 0)
        return result

    def _like(self, tensor: tvm_ffi.Tensor, device: tvm_ffi.Device) -> tvm_ffi.Tensor:
        return self._allocate(tvm_ffi.Shape(tensor.shape), tensor.dtype, device, None)
