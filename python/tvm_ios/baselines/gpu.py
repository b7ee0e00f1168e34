# SPDX-License-Identifier: Apache-2.0
"""Others that run a network on a GPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .contenders import NAMES, Peers


def gpu_peers(
    model: str,
    batch: int | None,
    inputs: Sequence[np.ndarray],
    device_id: int,
    precision: str,
    trust: bool = False,
    names: Sequence[str] = NAMES,
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
    names : sequence of str
        Of :data:`~.contenders.NAMES` or :data:`~.contenders.QUICK_NAMES`.
    """
    try:
        import torch
    except ImportError:
        return Peers(left_out=dict.fromkeys(names, "PyTorch is not installed"))
    if not torch.cuda.is_available():
        reason = f"PyTorch {torch.__version__} finds no GPU"
        return Peers(left_out=dict.fromkeys(names, reason))
    from .torch_runs import torch_runs

    device = torch.device("cuda", device_id)
    return torch_runs(model, batch, inputs, device, precision, trust, names)
