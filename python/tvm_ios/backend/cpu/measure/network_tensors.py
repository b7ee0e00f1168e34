# SPDX-License-Identifier: Apache-2.0
"""The tensors of a network whose stages are timed.

Every value has a tensor of its own, which holds it from the beginning on, so that stages can be
timed without those before them. What a timed run computes and reads itself lies in a workspace
instead, in which tensors share memory as in the compiled network: a value that was written where
another has just been read is still in the caches, and one in a tensor of its own is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from tvm import relax

from ....lowering.cold import Place
from ....lowering.implementation import Implementation, LoweredGraph, present
from ....lowering.inplace import resolve
from ....lowering.value import Value
from ....ops.tensor import TensorSpec
from ..code.workspace import plan_workspace, read_before_written, tensors_of
from ..isa.bfloat16 import STORED
from ..isa.dot4 import FACTOR_TYPES
from ..kernels.kernel import Kernel
from .session_handles import CpuSessionHandles

TakeWeights = Callable[[TensorSpec], Place]
Calls = Sequence[tuple[int, Implementation[Kernel]]]
"""Kernels in their order, with the stage of each."""
Workspace = Mapping[object, Place]
"""Where tensors lie that have no place of their own, by their roots."""

WEIGHTS = ("float32", STORED, *FACTOR_TYPES.values())
"""The types of weights; other constants are indices, and not random."""

_BLOCK = 1 << 18  # random numbers, repeated to fill a memory


class NetworkTensors:
    """The tensors of one network in a session.

    Parameters
    ----------
    lowered : LoweredGraph
        The network.
    handles : CpuSessionHandles
        The memory of the session.
    seed : int
        Seed of the random inputs.
    """

    def __init__(
        self, lowered: LoweredGraph[Kernel], handles: CpuSessionHandles, seed: int
    ) -> None:
        self._handles, self._slots = handles, lowered.slots
        self._random = np.random.default_rng(seed)
        self._memories: dict[object, int] = {}
        self._packed: dict[int, tuple[np.ndarray, int]] = {}
        self._specs = {
            value: spec
            for i in present(lowered)
            for value, spec in zip(i.outputs, i.kernel.outputs, strict=True)
        }
        self._planned: tuple[Calls, Workspace] = ((), {})
        self._shared, self._shared_bytes = 0, -1

    def places(
        self,
        implementation: Implementation[Kernel],
        workspace: Workspace | None = None,
        weights: TakeWeights | None = None,
    ) -> tuple[Place, ...]:
        """Return the places of a kernel's tensors.

        Parameters
        ----------
        implementation : Implementation
            The kernel.
        workspace : mapping of root to Place, optional
            What does not lie in tensors of its own.
        weights : callable, optional
            What supplies constants of :data:`WEIGHTS`.
        """
        kernel, workspace = implementation.kernel, workspace or {}
        inputs = [
            weights(spec)
            if weights is not None and isinstance(value, np.ndarray) and spec.dtype in WEIGHTS
            else self._input(value, spec, workspace)
            for value, spec in zip(implementation.inputs, kernel.inputs, strict=True)
        ]
        outputs = [self._result(value, workspace) for value in implementation.outputs]
        scratch = [
            workspace.get((id(implementation), i))
            or Place(self._kept((implementation.operators, i), spec.num_bytes))
            for i, spec in enumerate(kernel.scratch)
        ]
        return (*inputs, *outputs, *scratch)

    def workspace(self, calls: Calls) -> Workspace:
        """Plan the workspace of a run.

        A tensor that is read before it is written is not part of it: it holds its value from
        before, so that no run computes with what another one left.

        Parameters
        ----------
        calls : sequence of (int, Implementation)
            The stage of each kernel, in order.
        """
        known, _ = self._planned
        same = len(known) == len(calls) and all(
            stage == other[0] and implementation is other[1]
            for (stage, implementation), other in zip(calls, known, strict=True)
        )
        if not same:  # a stage's work partitionings are timed in turn, in the same workspace
            self._planned = (calls, self._plan(calls))
        return self._planned[1]

    def random_memory(self, num_bytes: int) -> int:
        """Allocate memory with random float32 numbers, and return its number."""
        memory = self._handles.memory(num_bytes)
        self._handles.fill(memory, self._random.standard_normal(_BLOCK, "float32"))
        return memory

    def _plan(self, calls: Calls) -> Workspace:
        tensors = [tuple(tensors_of(i, self._slots)) for _, i in calls]
        reads = [len(i.inputs) for _, i in calls]
        own = read_before_written(
            (parts[:inputs], parts[inputs:]) for parts, inputs in zip(tensors, reads, strict=True)
        )
        stages = [stage for stage, _ in calls]
        offsets, num_bytes = plan_workspace(zip(stages, tensors, strict=True), own)
        if num_bytes > self._shared_bytes:
            self._shared, self._shared_bytes = self._handles.memory(num_bytes), num_bytes
        return {root: Place(self._shared, offset) for root, offset in offsets.items()}

    def _input(self, value: Value, spec: TensorSpec, workspace: Workspace) -> Place:
        if isinstance(value, np.ndarray):
            if id(value) not in self._packed:  # keeps the array alive, so that its id stays unique
                self._packed[id(value)] = (value, self._written(value))
            return Place(self._packed[id(value)][1])
        if value in self._specs:
            return self._result(value, workspace)
        if value not in self._memories:
            self._memories[value] = self._written(self._random_values(spec))
        return Place(self._memories[value])

    def _result(self, value: relax.Var, workspace: Workspace) -> Place:
        """Return the tensor of a kernel's result, inside a concatenation if it lies there."""
        root, offset = resolve(value, self._slots)
        if root in workspace:
            place = workspace[root]
            return Place(place.memory, place.offset + offset)
        return Place(self._kept(root, self._specs[root].num_bytes), offset)

    def _random_values(self, spec: TensorSpec) -> np.ndarray:
        """Return an input of the network, or the result of an operator without a kernel."""
        if spec.dtype.startswith("float"):
            return self._random.standard_normal(spec.shape).astype(spec.dtype)
        return np.ones(spec.shape, spec.dtype)

    def _kept(self, key: object, num_bytes: int) -> int:
        """Return the memory of ``key``, allocated on the first call."""
        if key not in self._memories:
            self._memories[key] = self._handles.memory(num_bytes)
        return self._memories[key]

    def _written(self, array: np.ndarray) -> int:
        memory = self._handles.memory(array.nbytes)
        self._handles.write(memory, array)
        return memory
