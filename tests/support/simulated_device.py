# SPDX-License-Identifier: Apache-2.0
"""Small networks on a simulated device whose latencies a test states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm import relax

from replay.device import (
    Readings,
    SimulatedPool,
    SimulatedRunner,
    SimulatedStageBuilder,
    simulated_speed,
)
from replay.machine import Machine
from support.networks import conv, relax_module
from support.numpy_backend import KIND, NumpyKind
from tvm_ios.backend import registry
from tvm_ios.compiler.pricing import measure_prices
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.lowering.kernel import Kernel
from tvm_ios.lowering.stages import AnyStage
from tvm_ios.measure.cache import MeasurementCache
from tvm_ios.measure.cost import MeasuredCost
from tvm_ios.options import Options
from tvm_ios.search.cost_model import CostModel
from tvm_ios.search.network import NetworkSearch

registry.register(NumpyKind())

ALONE = 1e-3  # seconds of every operator on one worker

Truth = Callable[[AnyStage], Mapping[str, float]]
"""The seconds of a stage by work partitioning."""


def branches(count: int) -> tvm.IRModule:
    """Different convolutions of one tensor, concatenated."""

    def body(emit: Callable[[relax.Expr], relax.Var], x: relax.Expr) -> relax.Expr:
        outputs = [emit(conv(x, 4 + i, seed=i)) for i in range(count)]
        return emit(relax.op.concat(outputs, axis=1))

    return relax_module(body, (1, 3, 5, 5))


def ladder() -> tvm.IRModule:
    """Five branches of two convolutions each, all different: a thousand stages and more."""

    def body(emit: Callable[[relax.Expr], relax.Var], x: relax.Expr) -> relax.Expr:
        first = [emit(conv(x, 8 + 4 * i, 1 + 2 * (i % 2), seed=i)) for i in range(5)]
        second = [emit(conv(y, 24 - 4 * i, 1, seed=9 + i)) for i, y in enumerate(first)]
        return emit(relax.op.concat(second, axis=1))

    return relax_module(body, (1, 8, 13, 11))


@dataclass
class Simulation:
    """A network on a simulated device.

    Attributes
    ----------
    truth : callable
        The true latencies of stages.
    mod : tvm.IRModule
        The network.
    machine : Machine
        Whose time passes.
    readings : callable, optional
        A wrong clock.
    """

    truth: Truth
    mod: tvm.IRModule = field(default_factory=lambda: branches(3))
    machine: Machine = field(default_factory=Machine)
    readings: Readings | None = None
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        self.scheduler = Scheduler.prepare(self.mod, KIND, options=self.options)
        original = self.scheduler.stage_builder
        self.stage_builder = SimulatedStageBuilder(
            original.lowered, original.workers, original=original, latencies=self
        )
        self.runner = SimulatedRunner(self.machine, self, self.readings)

    def alone(self, kernel: Kernel) -> float:
        return ALONE

    def stage(self, stage: AnyStage) -> Mapping[str, float]:
        return self.truth(stage)

    def stage_of(self, *ops: int) -> AnyStage:
        """The stage of these operators."""
        return self.stage_builder.stage_of(ops, "concurrent")

    def measured(self, cache: MeasurementCache | None = None) -> MeasuredCost:
        """The cost model that measures."""
        pool, speed = SimulatedPool(self.runner), simulated_speed(self.machine)
        return MeasuredCost.begin(pool, self.stage_builder, cache, speed)

    def cost(self) -> CostModel:
        """The cost model that a search on the device has, by its options."""
        pool, speed = SimulatedPool(self.runner), simulated_speed(self.machine)
        backend: Any = self.scheduler.backend
        options, database = self.options, self.scheduler.database
        return measure_prices(backend, self.stage_builder, pool, options, database, speed)[0]

    def search(self, cost: CostModel) -> list[Any]:
        """The stages that a search finds."""
        replacements = self.stage_builder.replacements
        lowered, results = self.stage_builder.lowered, self.scheduler.results
        return NetworkSearch(lowered, replacements, results, self.options).run(cost)


def by_size(single: float = 1e-3, *, shared: float = 0.6) -> Truth:
    """Return latencies in which groups that share a stage take a part of their operators' time."""

    def seconds(stage: AnyStage) -> dict[str, float]:
        together = shared if len(set(stage.groups)) > 1 else 1.0
        return {"processors": single * together * len(stage.implementations)}

    return seconds
