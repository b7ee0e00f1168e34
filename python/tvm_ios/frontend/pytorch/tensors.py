# SPDX-License-Identifier: Apache-2.0
"""Calls of compiled models with PyTorch tensors; imports torch only if it is given one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm_ffi

import tvm_ios_runtime

if TYPE_CHECKING:
    import torch

_ALIGNMENT = 64  # bytes, for inputs that are read in place


def is_tensor(value: object) -> bool:
    """Return whether the value is a ``torch.Tensor``."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def run(model: tvm_ios_runtime.Model, device_id: int, inputs: Sequence[Any]) -> list[Any]:
    """Run a model; the results are PyTorch tensors if an input is one, on the GPU if an input is.

    Parameters
    ----------
    model : tvm_ios_runtime.Model
        The model.
    device_id : int
        The model's GPU, if it was compiled for one.
    inputs : sequence of numpy.ndarray or torch.Tensor
        The inputs, in order.

    Raises
    ------
    ValueError, RuntimeError
        As the model does.
    """
    tensors = [value for value in inputs if is_tensor(value)]
    if any(tensor.is_cuda for tensor in tensors):
        return _run_on_gpu(model, device_id, inputs)
    arrays = [array_of(value) if is_tensor(value) else value for value in inputs]
    results = model(*arrays)
    return list(map(_tensor_of, results)) if tensors else results


def array_of(tensor: torch.Tensor) -> np.ndarray:
    """Return a tensor of the CPU as an array; bfloat16, which NumPy lacks, as that of ml_dtypes."""
    import torch

    tensor = tensor.detach()
    if tensor.dtype != torch.bfloat16:
        return tensor.numpy()
    import ml_dtypes

    return tensor.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)


def _tensor_of(array: np.ndarray) -> torch.Tensor:
    import torch

    if array.dtype.name != "bfloat16":
        return torch.from_numpy(array)
    return torch.from_numpy(array.view("int16")).view(torch.bfloat16)


def _run_on_gpu(model: tvm_ios_runtime.Model, device_id: int, inputs: Sequence[Any]) -> list[Any]:
    """Run on PyTorch's current stream of the device, without synchronising."""
    import torch

    device = tvm_ffi.device("cuda", device_id)
    stream = torch.cuda.current_stream(device_id).cuda_stream
    # TVM changes the current device, which PyTorch shares.
    with torch.cuda.device(device_id), tvm_ffi.use_raw_stream(device, stream):
        lent = [_lend(value, torch.device("cuda", device_id)) for value in inputs]
        return model.on_device(lent, _own)


def _lend(value: Any, device: torch.device) -> tvm_ffi.Tensor:
    """Return a view of an input on the GPU; copy it from the host, or if it is not contiguous."""
    import torch

    tensor = torch.as_tensor(value).detach()
    if not tensor.is_cuda:
        tensor = tensor.to(device)
    tensor = tensor.contiguous()
    if tensor.data_ptr() % _ALIGNMENT:
        tensor = tensor.clone()
    return tvm_ffi.from_dlpack(tensor)


def _own(result: tvm_ffi.Tensor) -> torch.Tensor:
    """Copy a result to PyTorch's memory, which is freed only when all streams have read it."""
    import torch

    return torch.from_dlpack(result).clone()
