# SPDX-License-Identifier: Apache-2.0
"""What each of many workers would compute, recorded on one core."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from simulation.traffic import Traffic, traffic_of
from tvm_ios.backend.cpu.backend import CpuBackend
from tvm_ios.backend.cpu.code.constants import Constants
from tvm_ios.backend.cpu.code.network import CpuLibrary
from tvm_ios.backend.cpu.code.recorder import Recorder
from tvm_ios.backend.cpu.code.waits import WaitPlan
from tvm_ios.backend.cpu.measure.model import CompiledVariants
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.graph.operators import Operator
from tvm_ios.lowering.emitter import emit_networks
from tvm_ios.schedule.schedule import Schedule

_RUNS = 15


@dataclass(frozen=True)
class Launch:
    """One launch of a network.

    Attributes
    ----------
    plan : WaitPlan
        How its workers wait for each other.
    seconds : numpy.ndarray
        What each share takes on one core, float64 [positions, workers].
    traffic : Traffic
    weight_bytes : int
        The constants of the whole network, which each run reads.
    """

    plan: WaitPlan
    seconds: np.ndarray
    traffic: Traffic
    weight_bytes: int


@dataclass(frozen=True)
class Recording:
    """A network under one schedule.

    Attributes
    ----------
    launches : list of Launch
        One after another.
    kernel_seconds : dict of kernel key to float
        What each kernel takes on one core.
    """

    launches: list[Launch]
    kernel_seconds: dict[Hashable, float]


def record(
    scheduler: Scheduler, schedule: Schedule, elsewhere: Mapping[Hashable, float] | None = None
) -> Recording:
    """Compile a network for its number of workers, and run it on one core.

    A thread that is alone computes the shares of all workers, level by level, so that nothing waits
    for anything. Each share is the fastest of several runs: others may use the machine.

    Parameters
    ----------
    scheduler : Scheduler
    schedule : Schedule
    elsewhere : mapping of kernel key to float, optional
        What kernels take on one core of another machine, of which shares are then given.
    """
    assert isinstance(scheduler.backend, CpuBackend), "workers are those of a CPU"
    network = scheduler.network({"main": schedule})
    (lowered,) = network.variants.values()
    constants = Constants.of([s for s in lowered.stages if not isinstance(s, Operator)])
    library = CpuLibrary(scheduler.target, constants, workers=1, record=True)
    module, inputs = emit_networks([network], library), scheduler.random_inputs(0)
    model = CompiledVariants.compile(module, ["main"], inputs, scheduler.target, workers=1)
    model("main", inputs)
    runs = [_seconds(library.recorders, model("main", inputs)[1:]) for _ in range(_RUNS)]
    recorded = [
        (recorder, {share: min(run[n][share] for run in runs) for share in runs[0][n]})
        for n, recorder in enumerate(library.recorders)
    ]
    found = _by_kernel(recorded)
    taken = {**found, **{key: s for key, s in (elsewhere or {}).items() if key in found}}
    factors = {key: taken[key] / seconds if seconds else 1.0 for key, seconds in found.items()}
    launches = [
        Launch(recorder.plan, _by_share(recorder, seconds, factors),
               traffic_of(recorder.region, library.kernels), constants.num_bytes)
        for recorder, seconds in recorded
    ]  # fmt: skip
    return Recording(launches, taken)


class _Share(NamedTuple):
    """What a worker computes of a kernel at a position."""

    position: int
    worker: int
    operators: tuple[int, ...]
    kernel: Hashable


Seconds = Mapping[_Share, float]


def _seconds(recorders: Sequence[Recorder], noted: Sequence[Any]) -> list[Seconds]:
    """Return the seconds of each share of each launch, in one run."""
    found = []
    for recorder, tensor in zip(recorders, noted, strict=True):
        shares: dict[_Share, float] = defaultdict(float)
        for entry in recorder.records(tensor.numpy()):
            computed = entry.stage.implementations[entry.call]
            place = entry.part.position, entry.part.column
            share = _Share(*place, computed.operators, computed.kernel.key)
            shares[share] += 1e-9 * (entry.end - entry.begin)
        found.append(shares)
    return found


def _by_share(
    recorder: Recorder, seconds: Seconds, factors: Mapping[Hashable, float]
) -> np.ndarray:
    table = np.zeros((1 + max(share.position for share in seconds), recorder.workers))
    for share, taken in seconds.items():
        table[share.position, share.worker] += taken * factors[share.kernel]
    return table


def _by_kernel(recorded: Sequence[tuple[Recorder, Seconds]]) -> dict[Hashable, float]:
    """Return the seconds of each kernel: the mean, where several operators have the same one."""
    sums: dict[Hashable, float] = defaultdict(float)
    users: dict[Hashable, set[tuple[int, ...]]] = defaultdict(set)
    for _, seconds in recorded:
        for share, taken in seconds.items():
            sums[share.kernel] += taken
            users[share.kernel].add(share.operators)
    return {key: total / len(users[key]) for key, total in sums.items()}
