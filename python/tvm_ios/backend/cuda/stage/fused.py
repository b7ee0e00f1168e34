# SPDX-License-Identifier: Apache-2.0
"""Launches that compute operators of several groups."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import tvm

from ....lowering.implementation import Implementation
from ....lowering.value import identity
from ..kernels.horizontal import fuse
from ..kernels.kernel import CudaKernel
from ..kernels.launch import NotFusible
from .stage import Launch


@dataclass
class FusedKernels:
    """Kernels fused from several, each built once.

    Attributes
    ----------
    target : tvm.target.Target
    """

    target: tvm.target.Target
    _known: dict[Hashable, CudaKernel | None] = field(default_factory=dict)

    def launch(self, parts: Sequence[Implementation[CudaKernel]]) -> Launch | None:
        """Return independent operators as one launch on the first stream, None if impossible.

        Parameters
        ----------
        parts : sequence of Implementation
            The operators, in the order in which their blocks are numbered.

        Returns
        -------
        Launch or None
            The launch.
        """
        inputs = {identity(value): value for part in parts for value in part.inputs}
        outputs = {identity(value): value for part in parts for value in part.outputs}
        values = (tuple(inputs.values()), tuple(outputs.values()))
        if len(parts) == 1:
            return Launch(parts[0].kernel, 0, parts[0].inputs, parts[0].outputs)
        place = {key: i for i, key in enumerate([*inputs, *outputs])}
        wiring = tuple(
            tuple(place[identity(value)] for value in (*part.inputs, *part.outputs))
            for part in parts
        )
        kernel = self._kernel(tuple(part.kernel for part in parts), wiring)
        return None if kernel is None else Launch(kernel, 0, *values)

    def _kernel(
        self, kernels: tuple[CudaKernel, ...], wiring: tuple[tuple[int, ...], ...]
    ) -> CudaKernel | None:
        key = (tuple(kernel.key for kernel in kernels), wiring)
        if key not in self._known:
            try:
                self._known[key] = fuse(kernels, wiring, self.target)
            except NotFusible:
                self._known[key] = None
        return self._known[key]
