# SPDX-License-Identifier: Apache-2.0
"""From a Relax module to a schedule and back: the steps that the pass and the commands share."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import tvm

from ..backend.registry import kind_of
from ..backend.shared.emitter import Stages, choose_way
from ..backend.shared.replacements.find import Replacements
from ..backend.shared.schedule_lowering import ScheduleLowering
from ..backend.shared.stages import AnyAssembler
from ..database import MeasurementDatabase
from ..graph.dag import Candidate
from ..graph.extract import extract
from ..graph.fingerprint import fingerprint
from ..graph.indices import smallest_extent
from ..graph.operators import Operator, OperatorGraph
from ..graph.prepare import prepare
from ..measure.cost import MeasuredCost
from ..measure.devices import AnyDevices
from ..measure.given import GivenCost, StageCost
from ..measure.model import Ways, random_inputs
from ..measure.records import Records
from ..measure.sites import Here, Site
from ..schedule.options import Options
from ..schedule.schedule import Schedule, ScheduledOperator, ScheduledStage
from ..schedule.timeline import Span
from ..search.core import Stage, greedy, sequential
from ..search.cost_model import CostModel
from ..search.network import NetworkSearch, candidate_of
from ..support.errors import OptionError, ScheduleError
from ..support.progress import progress
from .check import check_schedule


class Scheduler:
    """Schedules one function of a module for one target.

    Parameters
    ----------
    mod : tvm.IRModule
        A high-level Relax module.
    target : str or tvm.target.Target
        Of kind ``llvm`` or ``cuda``; taken as given, see :func:`tvm_ios.target.resolve`.
    function : str
    cost_model : "measure" or callable
        Stages are measured on this machine, or priced by a
        :data:`tvm_ios.measure.given.StageCost`.
    options : Options
    site : Site, optional
        Where stages are measured; by default in this process.

    Raises
    ------
    DatabaseError
        When the file that the options name is no database of measurements.
    DeviceError
        When a device cannot measure; from what measures, too.
    """

    def __init__(
        self,
        mod: tvm.IRModule,
        target: str | tvm.target.Target,
        function: str = "main",
        cost_model: str | StageCost = "measure",
        options: Options | None = None,
        site: Site | None = None,
    ) -> None:
        if cost_model != "measure" and not callable(cost_model):
            raise OptionError(f"cost_model must be 'measure' or a function, got {cost_model!r}.")
        site = site or Here()
        kind = kind_of(target)
        self.target = kind.given(target, site)
        self.options = options or Options()
        database = self.options.database
        self._database = None if database is None else MeasurementDatabase(database)
        self.backend = kind.create(self.target, site, self.options, self._database)
        self.workers = self.backend.workers
        self.prepared = prepare(mod, function, checks_indices=self.backend.checks_indices)
        self.graph: OperatorGraph = extract(self.prepared, function)
        body = self.prepared[function].body.body
        self.results = tvm.relax.analysis.free_vars(body)
        self.assembler: AnyAssembler = self.backend.assemble(self.graph, self.results)
        self._given_cost = cost_model
        self._cost: CostModel | None = None
        # What was compiled to be timed need not be compiled again to be used.
        self._ways: tvm.IRModule | None = None
        self._compiled: dict[str, Schedule] = {}

    @cached_property
    def devices(self) -> AnyDevices:
        """Who measures; they are given back when this object is no longer used."""
        devices = self.backend.devices(self.assembler, self.options.seed)
        weakref.finalize(self, devices.close)
        return devices

    @property
    def cost(self) -> CostModel:
        """The cost model; kernels are compiled when it is first asked for."""
        if self._cost is None:
            if callable(self._given_cost):
                self._cost = GivenCost(self._given_cost, self.assembler)
            else:
                self._cost = self._measured_cost()
        return self._cost

    def _measured_cost(self) -> CostModel:
        # xgboost takes a second to import, and GivenCost does not need it.
        from ..measure.learned import Examples, LatencyModel, LearnedCost

        backend, options = self.backend, self.options
        conditions = backend.conditions(self.assembler)
        records = Records(self._database, backend.identity(), conditions)
        self.assembler = backend.tune(self.assembler, self.devices, records)
        measured = MeasuredCost(self.devices, self.assembler, records)
        if options.measure_all:
            return measured
        model = LatencyModel(options.seed, options.caution)
        return LearnedCost(measured, self.assembler, Examples(records), model, options.seed)

    def search(self) -> Schedule:
        """The cheapest schedule by the cost model: IOS's dynamic programme on each block."""
        begin = time.perf_counter()
        cost = self.cost  # which also chooses kernels
        search = NetworkSearch(
            self.assembler.lowered, self._replacements(), self.results, self.options
        )
        stages = search.run(cost)
        return replace(
            self._schedule(stages, "scheduled"),
            search_seconds=time.perf_counter() - begin,
            branches_cut=search.branches_cut,
            given_up=search.given_up(stages, cost),
        )

    def unsearched(self) -> Schedule:
        """One operator a stage; nothing is measured."""
        operators = [self._describe(op, None) for op in self.graph.operators]
        return self._new_schedule(
            operators,
            [ScheduledStage(((op.name,),), division=self.assembler.usual) for op in operators],
        )

    def sequential(self) -> Schedule:
        """The baseline: one operator a stage."""
        return self._schedule(sequential(self.graph.dag), "sequential")

    def greedy(self) -> Schedule:
        """The baseline: each stage takes all ready operators, at most ``max_num_groups``.

        An operator that must be alone is, in a stage of its own.
        """
        limit = self.options.max_num_groups or len(self.graph.operators)
        alone = self.assembler.lowered.alone
        stages = []
        for stage in greedy(self.graph.dag, limit):
            stages += [Stage([g], "concurrent", 0.0) for g in stage.groups if g[0] in alone]
            shared = [g for g in stage.groups if g[0] not in alone]
            if shared:
                stages.append(Stage(shared, "concurrent", 0.0))
        return self._schedule(stages, "greedy")

    def adapt(self, schedule: Schedule) -> Schedule:
        """The stages of a schedule of the same operators in other sizes, for this function.

        Raises
        ------
        ScheduleError
            When its operators are not the same, or cannot share stages as it says.
        """
        operators = tuple(map(self._timed, self.graph.operators))
        mine = [(op.name, op.kind) for op in operators]
        if [(op.name, op.kind) for op in schedule.operators] != mine:
            raise ScheduleError(
                "The schedule was made for other operators; batch sizes of one network have the "
                "same."
            )
        costs = self.cost.operator_seconds
        lowering = ScheduleLowering(self.assembler)
        stages = [lowering.adapt(stage, costs) for stage in schedule.stages]
        adapted = self._new_schedule(operators, stages)
        check_schedule(adapted, self.graph)
        return adapted

    def divided(self, schedule: Schedule, division: str) -> Schedule:
        """The schedule with the work of all stages divided as ``division`` says, where it can be.

        A stage of one operator keeps its own.
        """
        lowering = ScheduleLowering(self.assembler)
        stages = (
            lowering.divided(stage, division) if len(stage.operators) > 1 else stage
            for stage in schedule.stages
        )
        return replace(schedule, stages=tuple(stages))

    def emit(self, schedule: Schedule) -> tvm.IRModule:
        """The module with the function lowered as ``schedule`` says.

        Raises
        ------
        ScheduleError
            When it is no schedule of this function.
        """
        self.check(schedule)
        function = self.graph.function
        names = [name for name, known in self._compiled.items() if known.lowers_like(schedule)]
        if self._ways is None or not names:
            return self._emit({function: schedule})
        variable = self.prepared.get_global_var(function)
        return choose_way(self._ways, self._compiled, names[0], variable)

    def trace(self, schedule: Schedule, repeat: int = 20) -> Sequence[Span]:
        """When each worker computes what, in the fastest of several runs.

        They run from the compiled kernels, and with the division of work that they are lowered to.
        Workers of a CUDA device are streams.

        Raises
        ------
        ScheduleError
            When it is no schedule of this function, when it names kernels that cannot be had here,
            or when none of its stages can be run.
        """
        self.check(schedule)
        self._check_kernels(schedule)
        stages = dict(enumerate(self.lower(schedule)))
        return self.backend.trace(stages, self.devices, repeat)

    def random_inputs(self, seed: int) -> list[tvm.runtime.Tensor | tuple[Any, ...]]:
        """Inputs that the network takes: its indices are of something that is there."""
        integers = int(max(1, min(2, smallest_extent(self.prepared))))
        return random_inputs(self.prepared[self.graph.function], seed, integers)

    def compile(self, schedules: Mapping[str, Schedule]) -> Ways:
        """The whole model under each schedule, ready to be timed or run where is measured."""
        inputs = self.random_inputs(self.options.seed)
        with progress("compiling models", 2) as advance:
            self._ways, self._compiled = self._emit(schedules), dict(schedules)
            advance(1)
            compiled = self.backend.compile(self._ways, list(schedules), inputs, self.devices)
            advance(1)
        return compiled

    def applied(self, schedule: Schedule) -> Schedule:
        """A schedule as it is applied here, which the options may say otherwise of than it does."""
        return replace(schedule, winograd=self.winograd)

    @property
    def winograd(self) -> bool:
        """Whether convolutions may be computed by Winograd's algorithm."""
        return self.options.winograd is not False

    def check(self, schedule: Schedule) -> None:
        """Raise ScheduleError unless it is one of this function, and can be applied as it says."""
        check_schedule(schedule, self.graph, self.target)
        if self.options.winograd is None and not schedule.winograd:
            raise ScheduleError(
                "The schedule was made without Winograd's algorithm; give Options(winograd=False)."
            )

    def _emit(self, schedules: Mapping[str, Schedule]) -> tvm.IRModule:
        """The function under each schedule, by the name it is given."""
        ways = {name: self.lower(schedule) for name, schedule in schedules.items()}
        return self.backend.emit(self.prepared, self.graph.function, ways, self.assembler)

    def lower(self, schedule: Schedule) -> Stages[Any]:
        """The stages of a schedule, with the kernels that it names."""
        kernels = {op.name: op.kernel for op in schedule.operators}
        return ScheduleLowering(self.assembler.chosen(kernels)).lower(schedule)

    def _check_kernels(self, schedule: Schedule) -> None:
        """Raise ScheduleError unless all operators have the kernels that the schedule names."""
        kernels = {op.name: op.kernel for op in schedule.operators}
        for op in self.graph.operators:
            wanted = kernels[op.name]
            if wanted is not None and wanted not in self.assembler.variants(op.index):
                raise ScheduleError(
                    f"Operator {op.name!r} of the schedule is computed by {wanted}, which is not "
                    "among its kernels here; give the precision, and cuDNN, that the schedule was "
                    "made with."
                )

    def close(self) -> None:
        """Leave the devices to others; nothing is measured any more."""
        if "devices" in vars(self):
            self.devices.close()

    def _replacements(self) -> Replacements[Any]:
        """What the search may replace."""
        if "merge" in self.options.strategies:
            return self.assembler.replacements
        return Replacements.none(len(self.graph.operators))

    def _schedule(self, stages: Sequence[Stage], name: str) -> Schedule:
        """Stages of operator indices, priced, as a schedule."""
        candidates = list(map(candidate_of, stages))
        seconds = self.cost(candidates)
        scheduled = tuple(
            ScheduledStage(
                tuple(tuple(self.graph.names(group)) for group in stage.groups),
                self._strategy(candidate),
                self.cost.division(candidate),
                float(latency),
            )
            for stage, candidate, latency in zip(stages, candidates, seconds, strict=True)
        )
        schedule = self._new_schedule(map(self._timed, self.graph.operators), scheduled)
        estimates = {name: float(seconds.sum())}
        return replace(schedule, estimates=estimates, measurements=self.cost.measurements)

    def _strategy(self, candidate: Candidate) -> str:
        """A candidate's strategy; that of an operator that nothing replaces is ``concurrent``."""
        replaced = self.assembler.replacements.rule(candidate.ops) is not None
        return candidate.strategy if replaced else "concurrent"

    def _new_schedule(
        self, operators: Iterable[ScheduledOperator], stages: Iterable[ScheduledStage]
    ) -> Schedule:
        """A schedule of this function for this target."""
        return Schedule(
            model=fingerprint(self.graph),
            function=self.graph.function,
            target=str(self.target),
            workers=self.workers,
            operators=tuple(operators),
            stages=tuple(stages),
            winograd=self.winograd,
        )

    def _timed(self, op: Operator) -> ScheduledOperator:
        """An operator with the time that the cost model has of it."""
        implementation = self.assembler.lowered.implementations[op.index]
        if implementation is None:
            return self._describe(op, None)
        return self._describe(op, self.cost.operator_seconds[implementation.kernel.key])

    def _describe(self, op: Operator, seconds: float | None) -> ScheduledOperator:
        return ScheduledOperator(
            op.name,
            op.kind,
            seconds,
            reads=tuple(self.graph.names(self.graph.predecessors[op.index])),
            outputs=op.output_types,
            flops=op.flops,
            kernel=self.assembler.variant(op.index),
        )
