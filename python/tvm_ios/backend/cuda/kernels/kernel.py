# SPDX-License-Identifier: Apache-2.0
"""A kernel of a CUDA device: a TIR function with its loops bound to blocks and threads."""

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
    scratch : tuple of TensorSpec
        Memory that only this kernel uses, the function's last parameters.
    variant : str
        Which of the operator's possible kernels it is.
    fusible : bool
        Whether its nests can be given to a share of a larger launch's blocks; a library's cannot.
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
    """No part of its result is computed on its own."""
    free = False
    """There is always something to do."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", remembering(self.key))

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        """All tensors in the order of the function's parameters."""
        return self.inputs + self.outputs + self.scratch

    @property
    def tiles(self) -> int:
        """Thread blocks of its largest launch; a library's are not known."""
        return max((grid.blocks for grid in self._grids), default=1)

    @property
    def steps(self) -> int:
        """Launches, one after another."""
        return max(len(self._grids), 1)

    @cached_property
    def _grids(self) -> tuple[Grid, ...]:
        return grids(self.function)
