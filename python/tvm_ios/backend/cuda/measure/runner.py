# SPDX-License-Identifier: Apache-2.0
"""The kernels and tensors of one network on a CUDA device, ready to time any stage."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from ....lowering.cold import ColdWeights, Place
from ....lowering.implementation import Implementation, constants
from ....lowering.value import Value
from ....measure.protocol import TimedRuns
from ....measure.transport.session import Session
from ....ops.tensor import TensorSpec
from ..kernels.kernel import CudaKernel
from ..rules.implement import CudaNetwork
from ..stage.stage import CudaStage
from .builder import CudaKernelBuilder
from .check import StageCheck, alone
from .clock import warm_clock
from .network_tensors import NetworkTensors
from .session_handles import CudaSessionHandles
from .weights import DTYPES, weights_from

_RUNS = 10  # runs of a stage in one graph, which amortize the graph's launch


class CudaStageRunner:
    """The runner of a CUDA device in a session.

    If the network's weights do not fit into L2, timed stages read theirs from memory.

    Parameters
    ----------
    network : CudaNetwork
        The network.
    builder : CudaKernelBuilder
        Compiles the kernels.
    session : Session
        The process that runs them.
    device_id : int
        The device.
    seed : int
        Seed of the random contents of all tensors.

    Attributes
    ----------
    session : Session
    """

    def __init__(
        self,
        network: CudaNetwork,
        builder: CudaKernelBuilder,
        session: Session,
        device_id: int,
        seed: int,
    ) -> None:
        self._network, self._lowered = network, network.lowered
        self._builder, self.session = builder, session
        self._device_id, self._seed = device_id, seed
        self._from_memory = weights_from(network.lowered) == "memory"

    def prepare(self) -> None:
        """Reach the device; a second call does nothing."""
        _ = self._check

    def time_alone(
        self, implementations: Sequence[Implementation[CudaKernel]], repeat: int
    ) -> TimedRuns:
        """Time operators, each in a graph of several runs, ``repeat`` times."""
        return self.time([alone(i) for i in implementations], repeat)

    def time(self, stages: Sequence[CudaStage], repeat: int) -> TimedRuns:
        """Time stages, each in a graph of several runs, ``repeat`` times.

        The device's clock is at its level under load, see :mod:`.clock`.

        Raises
        ------
        KernelFault
            If a stage computes something else than its operators.
        """
        return TimedRuns.steady(np.stack([self._time(stage, repeat) for stage in stages], axis=1))

    def _time(self, stage: CudaStage, repeat: int) -> np.ndarray:
        self._check(stage)
        runs = [self._tensors.calls(stage, self._weights) for _ in range(_RUNS)]
        filler = self._filler if self._from_memory else None
        seconds, _ = warm_clock(self._device_id).take(
            lambda: self._handles.time(runs, repeat, filler)
        )
        return seconds

    def trace(self, stage: CudaStage, repeat: int) -> np.ndarray:
        """Return when each launch of a stage begins and ends, in the fastest of ``repeat`` runs.

        The stage runs as a graph, in which each kernel stands between two events.

        Returns
        -------
        numpy.ndarray
            float64 [launches, 2], seconds.
        """
        calls = self._tensors.calls(stage, computed=self._tensors.computed([stage]))
        runs = self._handles.trace([calls], repeat)
        return min(runs, key=lambda run: float(run.max()))

    @cached_property
    def _handles(self) -> CudaSessionHandles:
        return CudaSessionHandles(self.session, self._builder, self._device_id)

    @cached_property
    def _tensors(self) -> NetworkTensors:
        return NetworkTensors(self._handles, self._seed, self._lowered.slots)

    @cached_property
    def _check(self) -> StageCheck:
        config = self._lowered.config
        return StageCheck(self._network.references, config.precision, self._handles, self._tensors)

    def _weights(self, value: Value, spec: TensorSpec) -> Place:
        """Return the place of a constant of a timed run."""
        if self._from_memory and spec.dtype in DTYPES:
            return self._cold.take(spec)
        return self._tensors.value(value, spec)

    @cached_property
    def _cold(self) -> ColdWeights:
        return ColdWeights(constants(self._lowered, DTYPES), self._tensors.random_memory)

    @cached_property
    def _filler(self) -> int:
        """The memory that overwrites L2 before runs that read weights from memory."""
        return self._handles.memory(self._lowered.config.limits.l2_bytes)
