# SPDX-License-Identifier: Apache-2.0
"""The simulation: workers compute their shares in order, and wait as the compiler has planned."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np

from simulation.machine import Machine
from simulation.recording import Launch
from tvm_ios.backend.cpu.code.waits import Wait


@dataclass(frozen=True)
class Outcome:
    """Seconds of a run, all of which but the first are means over the workers.

    Attributes
    ----------
    latency : float
        From the beginning to the end of the last worker.
    computing : float
        Kernels, as one core computes them at the clock of all.
    moving : float
        Reading what other workers wrote.
    memory : float
        Weights that come slower than one core alone has them.
    waiting : float
        For other workers: their longer shares, and the time that a signal takes.
    """

    latency: float = 0.0
    computing: float = 0.0
    moving: float = 0.0
    memory: float = 0.0
    waiting: float = 0.0

    def __add__(self, other: Outcome) -> Outcome:
        names = [field.name for field in fields(self)]
        return Outcome(*(getattr(self, name) + getattr(other, name) for name in names))


def simulate(launches: Iterable[Launch], machine: Machine) -> Outcome:
    """Run launches one after another on a machine that has a core for each worker."""
    return sum((_simulate(launch, machine) for launch in launches), Outcome())


def _simulate(launch: Launch, machine: Machine) -> Outcome:
    positions, workers = launch.seconds.shape
    computing = launch.seconds * machine.slowdown(workers)
    moving = launch.traffic.moved * machine.transfer
    from_memory = workers > 1 and launch.weight_bytes > machine.cache_bytes
    streaming = launch.traffic.weights * (from_memory * workers / machine.bandwidth)
    memory = np.maximum(streaming - computing, 0.0)
    taken = computing + moving + memory
    waits: dict[int, list[Wait]] = defaultdict(list)
    for wait in launch.plan.waits:
        waits[wait.position].append(wait)
    now = np.full(workers, machine.launch(workers))
    finished = np.zeros((positions + 1, workers))  # when each had completed so many positions
    for position in range(positions):
        if position in launch.plan.barriers:
            now[:] = now.max() + machine.barrier(workers)
        for wait in waits[position]:
            known = finished[wait.completed, wait.other] + machine.signal
            now[wait.worker] = max(now[wait.worker], known)
        now += taken[position]
        finished[position + 1] = now
    latency, means = float(now.max()), [a.sum() / workers for a in (computing, moving, memory)]
    return Outcome(latency, *map(float, means), waiting=latency - float(sum(means)))
