# SPDX-License-Identifier: Apache-2.0
"""A kernel of a CUDA device: a TIR function with its loops bound to blocks and threads."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from tvm import tirx

from ..kernel import TensorSpec


@dataclass(frozen=True)
class CudaKernel:
    """The implementation of one operator, or of several that run as one, on a CUDA device.

    Attributes
    ----------
    name : str
        A short identifier for people.
    key : Hashable
        Kernels with equal keys are equal code.
    inputs, outputs : tuple of TensorSpec
        Its tensors, in the order of the function's parameters.
    function : tvm.tirx.PrimFunc
        Scheduled: every loop nest is bound to blocks and threads, or the function is host code that
        calls a library.
    fusible : bool
        Whether its nests can be given to a share of a larger launch's blocks; a library's cannot.
    shareable : bool
        Whether it may run beside others; what uses a workspace of the host thread's may not.
    """

    name: str
    key: Hashable
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    function: tirx.PrimFunc = field(compare=False)
    fusible: bool = True
    shareable: bool = True

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        """All tensors in the order of the function's parameters."""
        return self.inputs + self.outputs
