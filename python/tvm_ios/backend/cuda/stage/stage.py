# SPDX-License-Identifier: Apache-2.0
"""Stages of a CUDA device: launches, each on one of the stage's streams."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tvm import relax

from ....lowering.stages import Stage
from ....lowering.value import Value, identity
from ..kernels.kernel import CudaKernel


@dataclass(frozen=True)
class Launch:
    """A kernel with its tensors, the stream that it is launched on, and what it waits for.

    Attributes
    ----------
    kernel : CudaKernel
    stream : int
    inputs : tuple of relax.Var or numpy.ndarray
    outputs : tuple of relax.Var
    waits : tuple of int
        Earlier launches, on other streams of the stage, that it follows.
    """

    kernel: CudaKernel
    stream: int
    inputs: tuple[Value, ...]
    outputs: tuple[relax.Var, ...]
    waits: tuple[int, ...] = ()


@dataclass(frozen=True)
class CudaStage(Stage[CudaKernel]):
    """A stage of a CUDA device.

    Attributes
    ----------
    launches : tuple of Launch
        In order; none if all results are in place already.
    """

    launches: tuple[Launch, ...]

    @staticmethod
    def of(stage: Stage[CudaKernel], launches: Iterable[Launch]) -> CudaStage:
        """Return the stage that runs as ``launches`` say."""
        return CudaStage(stage.implementations, stage.groups, stage.after, tuple(launches))

    @property
    def streams(self) -> int:
        """The number of streams."""
        return 1 + max((launch.stream for launch in self.launches), default=-1)

    def computed_by(self, launch: Launch) -> tuple[int, ...]:
        """Return the indices of the operators whose results a launch writes."""
        written = set(map(identity, launch.outputs))
        return tuple(
            op
            for implementation in self.implementations
            if not written.isdisjoint(map(identity, implementation.outputs))
            for op in implementation.operators
        )
