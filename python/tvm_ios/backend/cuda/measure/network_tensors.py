# SPDX-License-Identifier: Apache-2.0
"""The tensors of a network whose stages run on a CUDA device."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np

from ....lowering.cold import Place
from ....lowering.inplace import Slots, holder
from ....lowering.value import Value
from ....ops.tensor import TensorSpec
from ..stage.stage import CudaStage, Launch
from .session_handles import Call, CudaSessionHandles

TakeWeights = Callable[[Value, TensorSpec], Place]
"""From a constant to the place that a run reads it from."""

_BLOCK = 1 << 18  # random numbers, repeated to fill a memory


class NetworkTensors:
    """The tensors of one network in a session.

    A value that stages read has a memory of its own, with random content that nothing overwrites.
    What a stage computes lies in memory that all stages share: they run one after another.

    Parameters
    ----------
    handles : CudaSessionHandles
        The memory of the session.
    seed : int
        Seed of the random content.
    slots : mapping of relax.Var to Slot
        Values that are parts of others, and have no memory of their own.
    """

    def __init__(self, handles: CudaSessionHandles, seed: int, slots: Slots) -> None:
        self._handles, self._random, self.slots = handles, np.random.default_rng(seed), slots
        self._values: dict[object, tuple[Value, Place]] = {}
        self._shared: dict[Hashable, Place] = {}

    def calls(
        self,
        stage: CudaStage,
        weights: TakeWeights | None = None,
        computed: Mapping[object, Place] | None = None,
    ) -> list[Call]:
        """Return a stage's launches with the places of their tensors.

        Parameters
        ----------
        stage : CudaStage
            The stage.
        weights : callable, optional
            Returns the place of a constant; by default each has a memory of its own.
        computed : mapping of holder to Place, optional
            The places of values that stages compute; by default those of :meth:`computed`.
        """
        places = dict(self.computed([stage]) if computed is None else computed)

        def place(value: Value, spec: TensorSpec) -> Place:
            if self.holder(value) in places:
                return places[self.holder(value)]
            if weights is not None and isinstance(value, np.ndarray):
                return weights(value, spec)
            return self.value(value, spec)

        calls, free = [], 0
        for launch in stage.launches:
            scratch = launch.kernel.scratch
            own = [self.shared(("scratch", free + i), spec) for i, spec in enumerate(scratch)]
            free += len(scratch)
            named = [place(value, spec) for value, spec in tensors_of(launch)]
            calls.append(Call(launch.kernel, launch.stream, launch.waits, (*named, *own)))
        return calls

    def computed(self, stages: Sequence[CudaStage], role: str = "result") -> dict[object, Place]:
        """Return a place in shared memory for each tensor that the stages compute, by its holder.

        Parameters
        ----------
        stages : sequence of CudaStage
            The stages.
        role : str
            Results of different roles do not share memory.
        """
        found: dict[object, Place] = {}
        for stage in stages:
            for launch in stage.launches:
                for value, spec in zip(launch.outputs, launch.kernel.outputs, strict=True):
                    if self.holder(value) not in found:
                        found[self.holder(value)] = self.shared((role, len(found)), spec)
        return found

    def holder(self, value: Value) -> object:
        """Return the identity of the value whose memory holds a value."""
        return holder(value, self.slots)

    def shared(self, key: Hashable, spec: TensorSpec) -> Place:
        """Return memory that is used by turns, for tensors of one size."""
        key = (key, spec.num_bytes)
        if key not in self._shared:
            self._shared[key] = Place(self._handles.memory(spec.num_bytes))
        return self._shared[key]

    def random_memory(self, num_bytes: int) -> int:
        """Allocate memory with random content and return its number."""
        memory = self._handles.memory(num_bytes)
        self._handles.fill(memory, self._random.standard_normal(_BLOCK, "float32"))
        return memory

    def value(self, value: Value, spec: TensorSpec) -> Place:
        """Return the memory of a value that stages read, or of a constant."""
        key = self.holder(value)
        if key not in self._values:  # keeps the value alive, so that its identity stays unique
            array = value if isinstance(value, np.ndarray) else self._random_values(spec)
            memory = self._handles.memory(spec.num_bytes)
            self._handles.write(memory, array)
            self._values[key] = (value, Place(memory))
        return self._values[key][1]

    def _random_values(self, spec: TensorSpec) -> np.ndarray:
        if "float" in spec.dtype:
            return self._random.standard_normal(spec.shape, "float32").astype(spec.dtype)
        return np.ones(spec.shape, spec.dtype)


def tensors_of(launch: Launch) -> list[tuple[Value, TensorSpec]]:
    """Return the values that a launch reads and writes, as its kernel takes them."""
    specs = (*launch.kernel.inputs, *launch.kernel.outputs)
    return list(zip((*launch.inputs, *launch.outputs), specs, strict=True))
