# SPDX-License-Identifier: Apache-2.0
"""Programs of launches, as the library runs them; see ``src/runtime/cuda/program.h``."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from tvm import relax

from ....lowering.inplace import Slots, holder, resolve
from ....lowering.value import Value
from ....ops.tensor import TensorSpec, encoded
from ....schedule.synchronization import Synchronization
from ..kernels.kernel import CudaKernel
from .ordering import joined, workspace_of
from .stage import CudaStage


@dataclass(frozen=True)
class StageProgram:
    """The arguments of ``tvm_ios.runtime.cuda.RunStage``.

    Attributes
    ----------
    numbers : tuple of int
        The encoded launches. Tensors are numbered in the order of ``inputs`` and ``written``.
    kernels : tuple of CudaKernel
    inputs : tuple of relax.Var or numpy.ndarray
        Values that the launches read and do not write, each once.
    outputs : tuple of relax.Var
        Values that others read.
    written : tuple of TensorSpec
        The outputs, then other memory.
    """

    numbers: tuple[int, ...]
    kernels: tuple[CudaKernel, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[relax.Var, ...]
    written: tuple[TensorSpec, ...]

    @property
    def single(self) -> bool:
        """Whether it is one launch that needs no memory beside its results."""
        return len(self.kernels) == 1 and self.numbers == _alone(len(self.inputs + self.outputs))

    @staticmethod
    def of(stage: CudaStage, slots: Slots) -> StageProgram:
        """Encode the launches of a stage, all of whose results others may read."""
        outputs = [v for launch in stage.launches for v in launch.outputs]
        return _encode(stage, outputs, (0,) * len(stage.launches), slots)

    @staticmethod
    def joined(
        stages: Sequence[CudaStage],
        visible: Container[relax.Var],
        synchronization: Synchronization,
        slots: Slots,
    ) -> StageProgram:
        """Encode the launches of consecutive stages.

        Parameters
        ----------
        stages : sequence of CudaStage
            The stages.
        visible : container of relax.Var
            Values that others read; none of them is a part of another value.
        synchronization : Synchronization
            Whether a launch waits for what it reads, or for all stages before its own.
        slots : mapping of relax.Var to Slot
            Values that are parts of others.
        """
        whole, before = joined(stages, synchronization, slots)
        outputs = [
            holding
            for launch in whole.launches
            for value in launch.outputs
            if (holding := resolve(value, slots)[0]) in visible
        ]
        return _encode(whole, outputs, before, slots)


def _encode(
    stage: CudaStage, results: Sequence[relax.Var], before: Sequence[int], slots: Slots
) -> StageProgram:
    specs: dict[object, TensorSpec] = {}
    launches = stage.launches
    for launch in launches:
        for value, spec in zip(launch.outputs, launch.kernel.outputs, strict=True):
            specs[holder(value, slots)] = spec
    read = {holder(v, slots): v for launch in launches for v in launch.inputs}
    inputs = {key: value for key, value in read.items() if key not in specs}
    outputs = {holder(value, slots): resolve(value, slots)[0] for value in results}
    kernels = {launch.kernel.key: launch.kernel for launch in launches}
    first = len(inputs) + len(outputs)
    numbers = {key: i for i, key in enumerate([*inputs, *outputs])}
    within, num_bytes = workspace_of(launches, numbers.keys(), before, slots)
    workspace = [TensorSpec((num_bytes,), "uint8")] if within else []
    numbers |= {key: first + len(workspace) + i for i, key in enumerate(within)}
    codes = {key: number for number, key in enumerate(kernels)}
    program: list[int] = [stage.streams, len(within)]
    for offset, spec in within.values():
        program += [offset, *encoded(spec)]
    for i, launch in enumerate(launches):
        scratch = [(i, n) for n in range(len(launch.kernel.scratch))]
        named = (holder(v, slots) for v in (*launch.inputs, *launch.outputs))
        tensors = [numbers[key] for key in (*named, *scratch)]
        program += [codes[launch.kernel.key], launch.stream, len(launch.waits), *launch.waits]
        program += [len(tensors), *tensors]
    return StageProgram(
        tuple(program),
        tuple(kernels.values()),
        tuple(inputs.values()),
        tuple(outputs.values()),
        (*(specs[key] for key in outputs), *workspace),
    )


def _alone(num_tensors: int) -> tuple[int, ...]:
    """Return the numbers of a program of one launch on tensors in their order."""
    return (1, 0, 0, 0, 0, num_tensors, *range(num_tensors))
