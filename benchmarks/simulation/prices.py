# SPDX-License-Identifier: Apache-2.0
"""Schedules for many workers, searched by the recorded seconds of kernels."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from simulation.machine import Machine
from tvm_ios.backend.cpu.kernels.kernel import Kernel
from tvm_ios.backend.cpu.stage.plan import Share
from tvm_ios.backend.cpu.stage.stage import CpuStage
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.graph.dag import Candidate
from tvm_ios.graph.operators import OperatorGraph
from tvm_ios.schedule.schedule import Schedule


def searched(scheduler: Scheduler, seconds: Mapping[Hashable, float], machine: Machine) -> Schedule:
    """Search a schedule by what stages should take on a machine.

    A stage takes what its busiest worker takes, level by level, and a signal for each level.

    Parameters
    ----------
    scheduler : Scheduler
        Of the network for a number of workers.
    seconds : mapping of kernel key to float
        What kernels take on one core.
    machine : Machine
    """
    builder = scheduler.stage_builder

    def cost(_graph: OperatorGraph, candidates: Sequence[Candidate]) -> np.ndarray:
        return np.array([_price(stage, seconds, machine) for stage in map(stage_of, candidates)])

    def stage_of(candidate: Candidate) -> CpuStage:
        stage = builder.stage_of(candidate.ops, candidate.strategy)
        return builder.partition(stage, builder.default_partitioning, seconds)

    priced = replace(scheduler, given_cost=cost)
    # By these, stages divide their tiles; what launches nothing was not recorded.
    keys = priced.cost.operator_seconds
    priced.cost.operator_seconds = {key: seconds.get(key, 0.0) for key in keys}
    return priced.search()


def _price(stage: CpuStage, seconds: Mapping[Hashable, float], machine: Machine) -> float:
    """Return the seconds of a stage."""
    workers = stage.plan.workers
    taken = 0.0
    for level in stage.plan.levels:
        busy = np.zeros(workers)
        for share in level:
            assert isinstance(share, Share), "tiles are divided by number"
            kernel = stage.implementations[share.call].kernel
            part = _phase_share(kernel, share.phase) * seconds.get(kernel.key, 0.0)
            busy += part * np.diff(share.cuts) / max(share.cuts[-1], 1)
        taken += float(busy.max()) * machine.slowdown(workers) + machine.signal * (workers > 1)
    return taken


def _phase_share(kernel: Kernel, phase: int) -> float:
    """Return the share of a kernel's work that one of its phases has."""
    work = [p.work for p in kernel.phases]
    return work[phase] / sum(work)
