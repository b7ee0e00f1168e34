# SPDX-License-Identifier: Apache-2.0
"""A search on a simulated device, and how good it was."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tvm_ios.compiler.pricing import measure_prices
from tvm_ios.database import MeasurementDatabase
from tvm_ios.measure.learned import LearnedCost

from .device import SimulatedPool, SimulatedRunner, simulated_speed
from .known import network_search
from .machine import Machine
from .recorded import Recorded


@dataclass(frozen=True)
class Outcome:
    """How good a search was.

    Attributes
    ----------
    regret : float
        What the schedule takes over the optimum, less one.
    measured_share : float
        The share of the different stages that were measured.
    coverage90 : float
        The share of the stages without a measurement that are slower than the model's bound, which
        nine tenths should be; NaN if all were measured.
    overestimate : float
        The sum of its stages' prices over what the schedule takes, less one.
    seconds : float
        The time of the simulated machine that the search took.
    """

    regret: float
    measured_share: float
    coverage90: float
    overestimate: float
    seconds: float


def replay(
    device: Recorded, machine: Machine, seed: int, database: MeasurementDatabase | None = None
) -> Outcome:
    """Search on a device as it is done on a real one, and compare with the optimum.

    Parameters
    ----------
    device : Recorded
    machine : Machine
    seed : int
    database : MeasurementDatabase, optional
        What earlier searches have measured; this one adds to it.
    """
    scheduler, stage_builder = device.scheduler, device.stage_builder
    pool = SimulatedPool(SimulatedRunner(machine, device))
    options = replace(scheduler.options, seed=seed)
    cost, _ = measure_prices(
        scheduler.backend, stage_builder, pool, options, database, simulated_speed(machine)
    )
    stages = network_search(scheduler).run(cost)
    found = sum(device.true_seconds(s, cost.partitioning(s)) for s in stages)
    covered = coverage(device, cost) if isinstance(cost, LearnedCost) else float("nan")
    share = cost.measurements / device.distinct
    claimed = float(cost(stages).sum())
    return Outcome(found / device.optimum - 1, share, covered, claimed / found - 1, machine.now)


def coverage(device: Recorded, cost: LearnedCost) -> float:
    """Return how many stages without a measurement take longer than the model's 90% bound."""
    rest = [c for c in device.candidates if len(c.ops) > 1 and c not in cost.resolved]
    if not rest:
        return float("nan")
    stated = cost.stated_bounds(rest)
    return float(np.mean([device.true_seconds(c) >= bound for c, bound in stated.items()]))
