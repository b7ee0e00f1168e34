# SPDX-License-Identifier: Apache-2.0
"""CUDA kernels: TIR functions with loops bound to blocks and threads."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property

from tvm import tirx

from ....support.keys import remembering
from ....tir.tensor import TensorSpec
from .grids import Grid, grids


@dataclass(frozen=True)
class CudaKernel:
    """The CUDA implementation of one operator, or of several that run as one.

    Attributes
    ----------
    name : str
        A short display name.
    key : Hashable
        Kernels with equal keys are equal code.
    inputs, outputs : tuple of TensorSpec
        The kernel's tensors, in the order of the function's parameters.
    function : tvm.tirx.PrimFunc
        A scheduled function: every loop nest is bound to blocks and threads, or the function is
        host code that calls a library.
    scratch : tuple of TensorSpec
        Memory that belongs to this kernel alone, the function's last parameters.
    variant : str
        Identifies the kernel among the operator's candidates.
    fusible : bool
        Whether its blocks can become part of a larger launch; a library's cannot.
    """

    name: str
    key: Hashable
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    function: tirx.PrimFunc = field(compare=False)
    scratch: tuple[TensorSpec, ...] = ()
    variant: str = ""
    fusible: bool = True

    plane = None
    """No part of a result is computed on its own."""
    free = False
    """A kernel always has something to do."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", remembering(self.key))

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        """All tensors in the order of the function's parameters."""
        return self.inputs + self.outputs + self.scratch

    @property
    def tiles(self) -> int:
        """The thread blocks of the largest launch, 1 for a library's, which are unknown."""
        return max((grid.blocks for grid in self._grids), default=1)

    @property
    def steps(self) -> int:
        """The number of launches, which run one after another."""
        return max(len(self._grids), 1)

    @cached_property
    def _grids(self) -> tuple[Grid, ...]:
        return grids(self.function)
