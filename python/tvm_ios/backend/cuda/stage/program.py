# SPDX-License-Identifier: Apache-2.0
"""Programs of launches, as the library runs them; see ``src/runtime/cuda/program.h``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tvm import relax

from ....tir.tensor import TensorSpec, encoded
from ..kernels.kernel import CudaKernel
from .ordering import Order, order_of, workspace_of
from .stage import CudaStage, Launch, Value, identity


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
    def of(stage: CudaStage) -> StageProgram:
        """Encode the launches of a stage, all of whose results others may read."""
        outputs = [v for launch in stage.launches for v in launch.outputs]
        streams = tuple(launch.stream for launch in stage.launches)
        order = Order(streams, tuple(() for _ in streams), ())
        return _encode(stage.launches, outputs, order)

    @staticmethod
    def joined(stages: Sequence[CudaStage], visible: Collection[relax.Var]) -> StageProgram:
        """Encode the launches of consecutive stages, each of which waits for what it reads.

        Parameters
        ----------
        stages : sequence of CudaStage
            The stages.
        visible : collection of relax.Var
            Values that others read.
        """
        launches = [launch for stage in stages for launch in stage.launches]
        outputs = [v for launch in launches for v in launch.outputs if v in visible]
        return _encode(launches, outputs, order_of(launches))


def _encode(launches: Sequence[Launch], outputs: Sequence[relax.Var], order: Order) -> StageProgram:
    written = {identity(v) for launch in launches for v in launch.outputs}
    read = {identity(v): v for launch in launches for v in launch.inputs}
    inputs = {key: value for key, value in read.items() if key not in written}
    specs = {
        identity(value): spec
        for launch in launches
        for value, spec in zip(launch.outputs, launch.kernel.outputs, strict=True)
    }
    kernels = {launch.kernel.key: launch.kernel for launch in launches}
    results = [specs[identity(value)] for value in outputs]
    first = len(inputs) + len(outputs)
    numbers = {key: i for i, key in enumerate([*inputs, *map(identity, outputs)])}
    within, num_bytes = workspace_of(launches, numbers.keys(), order)
    workspace = [TensorSpec((num_bytes,), "uint8")] if within else []
    numbers |= {key: first + len(workspace) + i for i, key in enumerate(within)}
    codes = {key: number for number, key in enumerate(kernels)}
    program: list[int] = [1 + max(order.streams), len(within)]
    for offset, spec in within.values():
        program += [offset, *encoded(spec)]
    for i, launch in enumerate(launches):
        scratch = [(i, n) for n in range(len(launch.kernel.scratch))]
        keys = [*map(identity, (*launch.inputs, *launch.outputs)), *scratch]
        waits, tensors = order.waits[i], [numbers[key] for key in keys]
        program += [codes[launch.kernel.key], order.streams[i], len(waits), *waits]
        program += [len(tensors), *tensors]
    return StageProgram(
        tuple(program),
        tuple(kernels.values()),
        tuple(inputs.values()),
        tuple(outputs),
        (*results, *workspace),
    )


def _alone(num_tensors: int) -> tuple[int, ...]:
    """Return the numbers of a program of one launch on tensors in their order."""
    return (1, 0, 0, 0, 0, num_tensors, *range(num_tensors))
