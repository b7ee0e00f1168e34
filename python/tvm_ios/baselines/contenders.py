# SPDX-License-Identifier: Apache-2.0
"""The implementations that a GPU's models are compared with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ..measure.timing.models import Contender

NAMES = ("torch_compile", "torch_cudnn")
"""PyTorch's compiler with autotuning, and PyTorch's own kernels and cuDNN's in a CUDA graph."""

QUICK_NAMES = ("torch_reduce_overhead", "torch_cudnn", "torch_eager")
"""Those that are ready within a minute: the compiler without autotuning, and the kernels launched
one by one, too."""


class Peer(Contender, Protocol):
    """A network that others have made ready to run."""

    def outputs(self) -> list[np.ndarray]:
        """Return the outputs of one run, as float64."""


@dataclass
class Peers:
    """Who takes part in a comparison.

    Attributes
    ----------
    ready : dict of str to Peer
        By the names that tables and JSON have.
    left_out : dict of str to str
        Why others are not there.
    """

    ready: dict[str, Peer] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
