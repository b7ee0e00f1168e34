# SPDX-License-Identifier: Apache-2.0
"""Tensors of a model that runs on a CUDA device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tvm_ffi

from .captures import SHARING
from .cuda import explained
from .streams import turns_of

_CUDA = 2  # DLPack's number of such devices
_LEGACY = 1  # DLPack's name of the default stream, which CUDA's handle 0 is


def cuda_device(value: object) -> int | None:
    """The number of the CUDA device that a tensor of any library lies on; None for all others."""
    if not hasattr(value, "__dlpack_device__"):
        return None
    kind, number = value.__dlpack_device__()
    return int(number) if int(kind) == _CUDA else None


class DeviceMemory:
    """A model's tensors on a device.

    Parameters
    ----------
    device_id : int

    Attributes
    ----------
    device_id : int
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
        """A run of the model, within a ``with``: the first, which captures its graph, is alone.

        Parameters
        ----------
        stream : int
            The handle of the one that the run is on.

        Raises
        ------
        DeviceFailure
        """
        use = SHARING.shared() if self._captured else SHARING.alone()
        with use, explained(self.device_id), turns_of(self.device_id).on(stream):
            yield
        self._captured = True

    @property
    def stream(self) -> int:
        """The handle of TVM's current stream of this thread."""
        handle: int = tvm_ffi.get_raw_stream(self._device)
        return handle

    def borrow(self, value: Any) -> tvm_ffi.Tensor:
        """A tensor of any library on the device, to be read on the current stream."""
        if isinstance(value, tvm_ffi.Tensor):
            return value
        return tvm_ffi.from_dlpack(value.__dlpack__(stream=self.stream or _LEGACY))

    def write(self, index: int, tensor: tvm_ffi.Tensor) -> tvm_ffi.Tensor:
        """Input ``index`` on the device, in memory that is used again by the next call.

        TVM copies on the default stream.
        """
        known = self._inputs.get(index)
        if known is None or known.shape != tensor.shape:
            known = self._inputs[index] = self._like(tensor, self._device)
        self._copy(tensor, known)
        return known

    def copied(self, tensor: tvm_ffi.Tensor) -> tvm_ffi.Tensor:
        """A result in other memory of the device, once it is computed."""
        tvm_ffi.get_global_func("runtime.Device_StreamSync")(self._device, self.stream)
        result = self._like(tensor, self._device)
        self._copy(tensor, result)
        return result

    def read(self, tensor: tvm_ffi.Tensor) -> tvm_ffi.Tensor:
        """A result on the host, once it is computed; on the default stream, too."""
        result = self._like(tensor, self._host)
        self._copy(tensor, result)
        tvm_ffi.get_global_func("runtime.Device_StreamSync")(self._device, 0)
        return result

    def _like(self, tensor: tvm_ffi.Tensor, device: tvm_ffi.Device) -> tvm_ffi.Tensor:
        return self._allocate(tvm_ffi.Shape(tensor.shape), tensor.dtype, device, None)
