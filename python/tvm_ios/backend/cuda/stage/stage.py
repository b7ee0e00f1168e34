# SPDX-License-Identifier: Apache-2.0
"""Stages of a CUDA device: launches, each on one of the stage's streams."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from tvm import relax

from ....tir.tensor import TensorSpec
from ...shared.stages import Stage
from ..kernels.kernel import CudaKernel

Value: TypeAlias = relax.Var | np.ndarray
"""A value of the function, or a constant."""


@dataclass(frozen=True)
class Launch:
    """A kernel with its tensors and the stream that it is launched on.

    Attributes
    ----------
    kernel : CudaKernel
    stream : int
    inputs : tuple of relax.Var or numpy.ndarray
    outputs : tuple of relax.Var
    """

    kernel: CudaKernel
    stream: int
    inputs: tuple[Value, ...]
    outputs: tuple[relax.Var, ...]


@dataclass(frozen=True)
class CudaStage(Stage[CudaKernel]):
    """A stage of a CUDA device.

    Attributes
    ----------
    launches : tuple of Launch
        In order.
    """

    launches: tuple[Launch, ...]

    @staticmethod
    def of(stage: Stage[CudaKernel], launches: Iterable[Launch]) -> CudaStage:
        """Return the stage that runs as ``launches`` say."""
        return CudaStage(stage.implementations, stage.groups, stage.after, tuple(launches))

    @property
    def streams(self) -> int:
        """The number of streams."""
        return 1 + max(launch.stream for launch in self.launches)

    @property
    def program(self) -> StageProgram:
        """The arguments of the stage's function."""
        return StageProgram.of(self)

    def computed_by(self, launch: Launch) -> tuple[int, ...]:
        """Return the indices of the operators whose results a launch writes."""
        written = set(map(identity, launch.outputs))
        return tuple(
            op
            for implementation in self.implementations
            if not written.isdisjoint(map(identity, implementation.outputs))
            for op in implementation.operators
        )


@dataclass(frozen=True)
class StageProgram:
    """The arguments of ``tvm_ios.runtime.cuda.RunStage``, see ``src/runtime/cuda/program.h``.

    Attributes
    ----------
    numbers : tuple of int
        The encoded launches. Tensors are numbered in the order of ``inputs`` and ``written``.
    kernels : tuple of CudaKernel
    inputs : tuple of relax.Var or numpy.ndarray
        Values that the stage reads and does not write, each once.
    outputs : tuple of relax.Var
    written : tuple of TensorSpec
        The outputs, then scratch memory.
    """

    numbers: tuple[int, ...]
    kernels: tuple[CudaKernel, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[relax.Var, ...]
    written: tuple[TensorSpec, ...]

    @staticmethod
    def of(stage: CudaStage) -> StageProgram:
        """Encode the launches of a stage."""
        launches = stage.launches
        outputs = {identity(v): v for launch in launches for v in launch.outputs}
        read = {identity(v): v for launch in launches for v in launch.inputs}
        inputs = {key: value for key, value in read.items() if key not in outputs}
        kernels = {launch.kernel.key: launch.kernel for launch in launches}
        place = {key: i for i, key in enumerate([*inputs, *outputs])}
        number = {key: i for i, key in enumerate(kernels)}
        numbers, free = [stage.streams], len(place)
        for launch in launches:
            tensors = [place[identity(value)] for value in (*launch.inputs, *launch.outputs)]
            tensors += range(free, free + len(launch.kernel.scratch))
            free += len(launch.kernel.scratch)
            numbers += [number[launch.kernel.key], launch.stream, len(tensors), *tensors]
        results = [spec for launch in launches for spec in launch.kernel.outputs]
        scratch = [spec for launch in launches for spec in launch.kernel.scratch]
        assert len(results) == len(outputs), "every result has one launch"
        return StageProgram(
            tuple(numbers),
            tuple(kernels.values()),
            tuple(inputs.values()),
            tuple(outputs.values()),
            (*results, *scratch),
        )


def identity(value: Value) -> object:
    """Return a key that is equal for the same value of a function, or for the same array."""
    return value if isinstance(value, relax.Var) else id(value)
