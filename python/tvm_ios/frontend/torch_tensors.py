# SPDX-License-Identifier: Apache-2.0
"""Models called with PyTorch's tensors; torch is imported only where one is given."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import tvm_ffi

import tvm_ios_runtime

if TYPE_CHECKING:
    import torch

_ALIGNMENT = 64  # bytes, of what a model reads where it is


def is_tensor(value: object) -> bool:
    """Whether it is a ``torch.Tensor``."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def run(model: tvm_ios_runtime.Model, device_id: int, inputs: Sequence[Any]) -> list[Any]:
    """What a model computes, as tensors if an input is one, on the GPU if one lies there.

    Parameters
    ----------
    model : tvm_ios_runtime.Model
    device_id : int
        The GPU that it runs on, if it is for one.
    inputs : sequence of numpy.ndarray or torch.Tensor

    Raises
    ------
    ValueError, RuntimeError
        As the model does.
    """
    tensors = [value for value in inputs if is_tensor(value)]
    if any(tensor.is_cuda for tensor in tensors):
        return _run_on_gpu(model, device_id, inputs)
    arrays = [value.detach().numpy() if is_tensor(value) else value for value in inputs]
    results = model(*arrays)
    return list(map(sys.modules["torch"].from_numpy, results)) if tensors else results


def _run_on_gpu(model: tvm_ios_runtime.Model, device_id: int, inputs: Sequence[Any]) -> list[Any]:
    """The run is on PyTorch's current stream of the device, and nobody waits for it."""
    import torch

    device = tvm_ffi.device("cuda", device_id)
    stream = torch.cuda.current_stream(device_id).cuda_stream
    # TVM leaves another device the current one, which is PyTorch's, too.
    with torch.cuda.device(device_id), tvm_ffi.use_raw_stream(device, stream):
        lent = [_lend(value, torch.device("cuda", device_id)) for value in inputs]
        return model.on_device(lent, _own)


def _lend(value: Any, device: torch.device) -> tvm_ffi.Tensor:
    """An input as a model reads it: copied if it lies on the host, or with gaps."""
    import torch

    tensor = torch.as_tensor(value).detach()
    if not tensor.is_cuda:
        tensor = tensor.to(device)
    tensor = tensor.contiguous()
    if tensor.data_ptr() % _ALIGNMENT:
        tensor = tensor.clone()
    return tvm_ffi.from_dlpack(tensor)


def _own(result: tvm_ffi.Tensor) -> torch.Tensor:
    """A result in PyTorch's memory, which knows what each stream still reads."""
    import torch

    return torch.from_dlpack(result).clone()
