# SPDX-License-Identifier: Apache-2.0
"""CUDA kernels: TIR functions with loops bound to blocks and threads."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property

from tvm import tirx

from ....lowering.kernel import Kernel
from .grids import Grid, grids


@dataclass(frozen=True)
class CudaKernel(Kernel):
    """The implementation of one operator, or of several that run as one, on a CUDA device.

    Attributes
    ----------
    function : tvm.tirx.PrimFunc or None
        Of ``tensors``. Scheduled: every loop nest is bound to blocks and threads, or the function
        is host code that calls a library. None if there is nothing to compute.
    variant : str
        Identifies the kernel among the operator's candidates.
    fusible : bool
        Whether its blocks can become part of a larger launch; a library's cannot.
    lean : CudaKernel or None
        A kernel that computes the same and takes less of the device, for stages that operators
        share.
    """

    function: tirx.PrimFunc | None = field(compare=False)
    variant: str = ""
    fusible: bool = True
    lean: CudaKernel | None = field(default=None, compare=False)

    @property
    def alternatives(self) -> tuple[Hashable, ...]:
        """The key of the lean kernel."""
        return () if self.lean is None else (self.lean.key,)

    @property
    def num_tiles(self) -> int:
        """The thread blocks of the largest launch, 1 for a library's, which are unknown."""
        return max((grid.blocks for grid in self._grids), default=1)

    @property
    def num_phases(self) -> int:
        """The number of launches, which run one after another."""
        return max(len(self._grids), 1)

    @property
    def is_noop(self) -> bool:
        """Whether there is nothing to do, as the result is in place already."""
        return self.function is None

    @cached_property
    def _grids(self) -> tuple[Grid, ...]:
        return () if self.function is None else grids(self.function)
