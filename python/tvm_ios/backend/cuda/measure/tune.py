# SPDX-License-Identifier: Apache-2.0
"""Choice of the fastest of an operator's candidate kernels, by measurement on the device."""

from __future__ import annotations

import logging

import numpy as np

from ....measure.device import Device
from ....measure.devices import Devices
from ....measure.records import Records, Subject, operator_subject
from ....measure.samples import take
from ....support.errors import UnsupportedError
from ....support.progress import progress
from ...shared.implementation import Implementation
from ..kernels.kernel import CudaKernel
from ..stage.assemble import CudaAssembler
from ..stage.stage import CudaStage

_logger = logging.getLogger(__name__)

_SAMPLES = 7


def tuned(
    assembler: CudaAssembler, devices: Devices[CudaKernel, CudaStage], records: Records
) -> CudaAssembler:
    """Return the stage builder with the fastest kernel of each operator, each timed on its own.

    Candidates with records are not measured again. A kernel that fails is not used.

    Parameters
    ----------
    assembler : CudaAssembler
        The stage builder of the network.
    devices : Devices
        The runner pool.
    records : Records
        The measurement cache.

    Returns
    -------
    CudaAssembler
        The stage builder with the chosen kernels.
    """
    network = assembler.network
    several = {i.kernel.key: i for found in network.candidates if len(found) > 1 for i in found}
    subjects = {key: operator_subject(i.kernel) for key, i in several.items()}
    records.recall(subjects.values())
    missing = [several[key] for key, s in subjects.items() if not records.samples(s.key)]
    _measure(missing, devices, records)
    chosen = {}
    for op, found in zip(network.lowered.graph.operators, network.candidates, strict=True):
        if len(found) > 1:
            fastest = min(found, key=lambda i: _seconds(records, subjects[i.kernel.key]))
            chosen[op.name] = fastest.kernel.variant
    return assembler.chosen(chosen)


def _measure(
    missing: list[Implementation[CudaKernel]],
    devices: Devices[CudaKernel, CudaStage],
    records: Records,
) -> None:
    if not missing:
        return
    devices.compile(i.kernel for i in missing)
    with progress("choosing kernels", len(missing)) as advance:

        def done(implementation: Implementation[CudaKernel], samples: list[float] | None) -> None:
            subject = operator_subject(implementation.kernel)
            if samples:
                records.add(subject, {"alone": samples})
            else:
                _logger.warning("%s gave no times; it is not used.", subject.words)
            advance(1)

        devices.each(missing, _samples, done)


def _samples(
    device: Device[CudaKernel, CudaStage], implementation: Implementation[CudaKernel]
) -> list[float] | None:
    """Measure the seconds of several runs; return None if cuDNN listed an unsupported algorithm."""
    try:
        return take(lambda count: device.time_alone(implementation, count), _SAMPLES)
    except UnsupportedError as error:
        _logger.info("%s", error)
        return None


def _seconds(records: Records, subject: Subject) -> float:
    samples = records.samples(subject.key)
    return float(np.median(samples["alone"])) if samples else np.inf
