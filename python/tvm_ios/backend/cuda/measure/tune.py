# SPDX-License-Identifier: Apache-2.0
"""Choice of the fastest of an operator's candidate kernels, by measurement on the device."""

from __future__ import annotations

import logging

import numpy as np

from ....measure.cache import MeasurementCache, WorkloadKey, operator_workload
from ....measure.pool import RunnerPool
from ....measure.stage_runner import StageRunner
from ....measure.timing import sensible
from ....support.errors import UnsupportedError
from ....support.progress import progress
from ...shared.implementation import Implementation
from ..kernels.kernel import CudaKernel
from ..stage.build import CudaStageBuilder
from ..stage.stage import CudaStage

_logger = logging.getLogger(__name__)

_SAMPLES = 7


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
    chosen = {}
    for op, found in zip(network.lowered.graph.operators, network.candidates, strict=True):
        if len(found) > 1:
            fastest = min(found, key=lambda i: _seconds(cache, workloads[i.kernel.key]))
            chosen[op.name] = fastest.kernel.variant
    return stage_builder.chosen(chosen)


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
    device: StageRunner[CudaKernel, CudaStage], implementation: Implementation[CudaKernel]
) -> list[float]:
    """Measure the seconds of several runs; none if cuDNN listed an unsupported algorithm."""
    try:
        return sensible(device.time_alone([implementation], _SAMPLES).seconds[:, 0])
    except UnsupportedError as error:
        _logger.info("%s", error)
        return []


def _seconds(cache: MeasurementCache, workload: WorkloadKey) -> float:
    samples = cache.samples(workload.key)
    return float(np.median(samples["alone"])) if samples else np.inf
