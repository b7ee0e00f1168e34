# SPDX-License-Identifier: Apache-2.0
"""Others that run a network on a GPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .contenders import Peers

NAMES = ("torch_compile", "torch_cudnn")
"""PyTorch's compiler, and PyTorch's own kernels and cuDNN's."""


def gpu_peers(
    model: str,
    batch: int | None,
    inputs: Sequence[np.ndarray],
    device_id: int,
    precision: str,
    trust: bool = False,
) -> Peers:
    """Get everybody ready who is installed; compiling takes minutes.

    Parameters
    ----------
    model, batch
        The network, see :func:`tvm_ios.frontend.models.load_model`.
    inputs : sequence of ndarray
    device_id : int
    precision : str
        As :class:`tvm_ios.options.Options` has it.
    trust : bool
        As :func:`tvm_ios.frontend.models.load_model` has it.
    """
    try:
        import torch
    except ImportError:
        return Peers(left_out=dict.fromkeys(NAMES, "PyTorch is not installed"))
    if not torch.cuda.is_available():
        reason = f"PyTorch {torch.__version__} finds no GPU"
        return Peers(left_out=dict.fromkeys(NAMES, reason))
    from .torch_runs import torch_runs

    return torch_runs(model, batch, inputs, torch.device("cuda", device_id), precision, trust)
