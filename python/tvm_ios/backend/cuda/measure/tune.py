# SPDX-License-Identifier: Apache-2.0
"""Choice of the fastest of an operator's candidate kernels, by measurement on the device."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from ....lowering.implementation import Implementation
from ....measure.cache import MeasurementCache, WorkloadKey, operator_workload
from ....measure.protocol import StageRunner
from ....measure.timing.stages import sensible
from ....measure.transport.pool import RunnerPool
from ....support.errors import UnsupportedError
from ....support.progress import progress
from ..kernels.kernel import CudaKernel
from ..stage.build import CudaStageBuilder
from ..stage.stage import CudaStage

_logger = logging.getLogger(__name__)

_SAMPLES = 7
_SLOWEST = 3.0  # times the fastest kernel's time: a slower one delays its stage
_LESS = 0.8  # of what the fastest kernel takes of the device


def tuned(
    stage_builder: CudaStageBuilder,
    pool: RunnerPool[CudaKernel, CudaStage],
    cache: MeasurementCache,
) -> CudaStageBuilder:
    """Return the stage builder with the fastest kernel of each operator, each timed on its own.

    Candidates with records are not measured again. A kernel that fails is not used.

    Parameters
    ----------
    stage_builder : CudaStageBuilder
        The stage builder of the network.
    pool : RunnerPool
        The runner pool.
    cache : MeasurementCache
        The measurement cache.

    Returns
    -------
    CudaStageBuilder
        The stage builder with the chosen kernels.
    """
    network = stage_builder.network
    several = {i.kernel.key: i for found in network.candidates if len(found) > 1 for i in found}
    workloads = {key: operator_workload(i.kernel) for key, i in several.items()}
    cache.lookup(workloads.values())
    missing = [
        several[key]
        for key, s in workloads.items()
        if not cache.samples(s.key) and not cache.failed(s.key)
    ]
    _measure(missing, pool, cache)
    chosen: dict[str, str | None] = {}
    lean: dict[str, str | None] = {}
    for op, found in zip(network.lowered.graph.operators, network.candidates, strict=True):
        if len(found) > 1:
            times = [(i.kernel, _seconds(cache, workloads[i.kernel.key])) for i in found]
            chosen[op.name], lean[op.name] = fastest_and_lean(times, stage_builder.workers)
    return stage_builder.chosen(chosen, lean)


def fastest_and_lean(
    times: Sequence[tuple[CudaKernel, float]], multiprocessors: int
) -> tuple[str, str | None]:
    """Return the variants of the fastest kernel and of the one that takes the least of a device.

    What a kernel takes is its time by the share of the multiprocessors that have a block of it. The
    fastest kernel of an operator is often fast because it has a block for each of them, and then
    leaves nothing to others. The second variant is None if nothing takes much less.

    Parameters
    ----------
    times : sequence of (CudaKernel, float)
        Kernels, and their seconds alone; infinite for one that failed.
    multiprocessors : int
        Of the device.
    """

    def taken(entry: tuple[CudaKernel, float]) -> float:
        kernel, seconds = entry
        return seconds * min(1.0, kernel.num_tiles / multiprocessors)

    fastest = min(times, key=lambda entry: entry[1])
    patient = [entry for entry in times if entry[1] <= _SLOWEST * fastest[1]]
    lean = min(patient, key=taken)
    worth = taken(lean) < _LESS * taken(fastest)
    return fastest[0].variant, lean[0].variant if worth else None


def _measure(
    missing: list[Implementation[CudaKernel]],
    pool: RunnerPool[CudaKernel, CudaStage],
    cache: MeasurementCache,
) -> None:
    if not missing:
        return
    pool.compile(i.kernel for i in missing)
    with progress("choosing kernels", len(missing)) as advance:

        def done(implementation: Implementation[CudaKernel], samples: list[float] | None) -> None:
            workload = operator_workload(implementation.kernel)
            if samples is None:
                cache.fail(workload, "alone")
            if samples:
                cache.add(workload, {"alone": samples})
            else:
                _logger.warning("%s gave no times; it is not used.", workload.words)
            advance(1)

        pool.each(missing, _samples, done)


def _samples(
    runner: StageRunner[CudaKernel, CudaStage], implementation: Implementation[CudaKernel]
) -> list[float]:
    """Measure the seconds of several runs; none if cuDNN listed an unsupported algorithm."""
    try:
        return sensible(runner.time_alone([implementation], _SAMPLES).seconds[:, 0])
    except UnsupportedError as error:
        _logger.info("%s", error)
        return []


def _seconds(cache: MeasurementCache, workload: WorkloadKey) -> float:
    samples = cache.samples(workload.key)
    return float(np.median(samples["alone"])) if samples else np.inf
