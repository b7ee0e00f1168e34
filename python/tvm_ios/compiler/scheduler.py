# SPDX-License-Identifier: Apache-2.0
"""One function of a module: what it is made of, and its schedules."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import tvm
from tvm import relax

from ..backend.base import AnyKind, Backend
from ..backend.registry import kind_of
from ..database import MeasurementDatabase
from ..graph.dag import Candidate
from ..graph.extract import extract
from ..graph.fingerprint import fingerprint
from ..graph.operators import Operator, OperatorGraph
from ..lowering.emitter import LoweredSchedule, Network, Stages
from ..lowering.replacements.find import Replacements
from ..lowering.schedule_lowering import ScheduleLowering
from ..lowering.stages import AnyStageBuilder
from ..measure.given import GivenCost, StageCost, given_cost
from ..measure.timing.models import Variants, random_inputs
from ..measure.transport.locations import LocalRunner, Runner
from ..measure.transport.pool import AnyRunnerPool
from ..ops.index_check import smallest_extent
from ..relax_ir.expressions import opened_of
from ..relax_ir.functions import relax_function
from ..relax_ir.lengths import lengths_of
from ..relax_ir.parts import is_part, module_of, part_names
from ..rewrite.prepare import prepare
from ..schedule.options import MODEL, Options
from ..schedule.rounding import Rounding
from ..schedule.schedule import Schedule, ScheduledOperator, ScheduledStage
from ..schedule.timeline import Timeline
from ..search.core import greedy, sequential
from ..search.cost_model import CostModel
from ..search.network import NetworkSearch
from ..sizes.size import OpenSizes
from ..support.errors import ModelError, ScheduleError
from ..support.progress import progress
from .check import check_kernels, check_schedule
from .compiled import CompiledSchedules
from .describe import describe, groups_of, kernels_of, lean_kernels_of
from .following import followed_stages
from .pricing import measure_prices
from .unsearched import unmeasured_stages


@dataclass
class Scheduler:
    """One function of a module, ready to be scheduled for one target.

    Made by :meth:`prepare`.

    Attributes
    ----------
    kind : TargetKind
        The kind of the target.
    target : tvm.target.Target
    options : Options
    prepared : tvm.IRModule
        What is scheduled: the module, brought into the form that operators are found in.
    graph : OperatorGraph
    results : sequence of relax.Var
        Values that leave the function.
    backend : Backend
    stage_builder : StageBuilder
        Builds stages of the kernels that operators have.
    given_cost : StageCost or None
        The user's prices of stages; None where they are measured.
    database : MeasurementDatabase or None
    rounding : Rounding or None
        How far the answers in half precision are off; None if that was not measured.
    parts : dict of str to Scheduler
        The branches and the bodies of loops that are decided while the function runs, by the names
        of their functions.
    part_schedules : dict of str to Schedule
        Those by which the parts are lowered; one operator a stage where it has none.
    opened : OpenSizes or None
        The open dimensions of the function, which live as long as this.
    """

    kind: AnyKind
    target: tvm.target.Target
    options: Options
    prepared: tvm.IRModule
    graph: OperatorGraph
    results: Sequence[relax.Var]
    backend: Backend[Any, Any, Any]
    stage_builder: AnyStageBuilder
    given_cost: StageCost | None = None
    database: MeasurementDatabase | None = None
    rounding: Rounding | None = None
    parts: dict[str, Scheduler] = field(default_factory=dict)
    part_schedules: dict[str, Schedule] = field(default_factory=dict)
    opened: OpenSizes | None = None
    _compiled: CompiledSchedules = field(default_factory=CompiledSchedules)

    @classmethod
    def prepare(
        cls,
        mod: tvm.IRModule,
        target: str | tvm.target.Target,
        function: str = "main",
        cost_model: str | StageCost = "measure",
        options: Options | None = None,
        runner: Runner | None = None,
        kind: AnyKind | None = None,
    ) -> Scheduler:
        """Find the operators of a function, and the kernels that compute them.

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
        options : Options, optional
        runner : Runner, optional
            Where stages are measured; by default in this process.
        kind : TargetKind, optional
            The kind of the target, where it is known.

        Raises
        ------
        ModelError
            When the function has what cannot be scheduled.
        DatabaseError
            When the file that the options name is no database of measurements.
        DeviceError
            When a device cannot measure; from what measures, too.
        """
        given = given_cost(cost_model)
        options, runner = options or Options(), runner or LocalRunner()
        kind = kind or kind_of(target)
        path = options.database
        database = None if path is None else MeasurementDatabase(path)
        resolved = kind.given(target, runner)
        if options.precision == MODEL:
            precision = kind.precision(resolved, relax_function(mod, function))
            options = replace(options, precision=precision)
        backend = kind.create(resolved, runner, options, database)
        if given is None:
            runner.start()  # while the network is prepared
        prepared = prepare(
            mod,
            function,
            checks_indices=backend.checks_indices,
            attention_depth=backend.attention_depth,
            recurrences=backend.recurrences,
            halves=backend.halves,
            transposed=backend.transposed,
        )
        graph = extract(prepared, function)
        results = relax.analysis.free_vars(prepared[function].body.body)
        builder = backend.stage_builder(graph, results)
        made = cls(
            kind, resolved, options, prepared, graph, results, backend, builder, given, database
        )
        made.opened = opened_of(prepared[function])
        if kind.device != "cpu" and (made.decides or lengths_of(mod[function])):
            raise ModelError(
                "The network decides on branches, loops or the lengths of its results while it "
                "runs, which a GPU does not support; compile it for a CPU."
            )
        if not is_part(mod[function]):
            made.parts = {
                name: cls.prepare(
                    module_of(mod, name), resolved, name, cost_model, options, runner, kind
                )
                for name in part_names(prepared)
            }
        return made

    @property
    def decides(self) -> bool:
        """Whether the function has branches, or loops, that are decided while it runs.

        It is not run on random numbers to be timed, as a loop might never end.
        """
        return not set(part_names(self.prepared)) <= {self.graph.function}

    @property
    def workers(self) -> int:
        """Threads that a schedule is made for."""
        return self.backend.workers

    @cached_property
    def pool(self) -> AnyRunnerPool:
        """What measures; they are given back when this object is no longer used."""
        pool = self.backend.pool(self.stage_builder, self.options.seed)
        weakref.finalize(self, pool.close)
        return pool

    @cached_property
    def cost(self) -> CostModel:
        """The prices of stages; kernels are compiled and timed when they are first asked for."""
        if self.given_cost is not None:
            return GivenCost(self.given_cost, self.stage_builder)
        cost, self.stage_builder = measure_prices(
            self.backend, self.stage_builder, self.pool, self.options, self.database
        )
        return cost

    def search(self) -> Schedule:
        """Search the cheapest schedule by the cost model, block by block."""
        begin = time.perf_counter()
        cost = self.cost  # which also chooses kernels
        search = NetworkSearch(
            self.stage_builder.lowered, self._replacements(), self.results, self.options
        )
        candidates = search.run(cost)
        return replace(
            self._schedule(candidates, "scheduled"),
            search_seconds=time.perf_counter() - begin,
            cut_cost=search.cut_cost,
            partition_gap=0.0 if search.whole else None,
            search_gap=search.gap,
        )

    def unsearched(self, kernels: Mapping[str, str | None] | None = None) -> Schedule:
        """Return the schedule of one operator a stage, in general; nothing is measured.

        See :func:`.unsearched.unmeasured_stages`.

        Parameters
        ----------
        kernels : mapping of str to str or None, optional
            The kernel of each operator, by its name; by default the one that it has.
        """
        builder = self.stage_builder
        if kernels is not None:
            builder = builder.chosen(kernels, {})
        operators = [describe(op, self.graph, builder) for op in self.graph.operators]
        stages = unmeasured_stages(builder, self.graph)
        return self._in_sequence(self._new_schedule(operators, stages))

    def _in_sequence(self, schedule: Schedule) -> Schedule:
        """Return a schedule whose operators run one after another."""
        return replace(schedule, synchronization=self.stage_builder.sequential_synchronization)

    def sequential(self) -> Schedule:
        """Return the baseline of one operator a stage, with prices."""
        return self._in_sequence(self._schedule(sequential(self.graph.dag), "sequential"))

    def greedy(self) -> Schedule:
        """Return the baseline whose stages take all ready operators, at most ``max_num_groups``.

        An operator that must be alone is, in a stage of its own.
        """
        limit = self.options.max_num_groups or len(self.graph.operators)
        opaque = self.stage_builder.lowered.opaque
        candidates = []
        for ops, strategy in greedy(self.graph.dag, limit):
            shared = tuple(op for op in ops if op not in opaque)
            candidates += [Candidate((op,), strategy) for op in ops if op in opaque]
            candidates += [Candidate(shared, strategy)] if shared else []
        return self._schedule(candidates, "greedy")

    def adapt(self, schedule: Schedule) -> Schedule:
        """Return the stages of a schedule of other sizes, as one of this function.

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
        lowering = ScheduleLowering(self.stage_builder)
        stages = [lowering.adapt(stage, costs) for stage in schedule.stages]
        adapted = self._new_schedule(operators, stages)
        check_schedule(adapted, self.graph)
        return adapted

    def following(self, schedule: Schedule) -> Schedule:
        """Return the stages of a schedule of known sizes, as far as open sizes can have them.

        Nothing is measured; see :func:`.following.followed_stages`.
        """
        builder = self.stage_builder
        stages = followed_stages(schedule, self.graph, builder)
        if stages is None:
            return self.unsearched()
        operators = [describe(op, self.graph, builder) for op in self.graph.operators]
        followed = self._new_schedule(operators, stages)
        try:
            check_schedule(followed, self.graph)
        except ScheduleError:  # what computes sizes comes between operators of one stage
            return self.unsearched()
        return followed

    def emit(self, schedule: Schedule) -> tvm.IRModule:
        """Return the module with the function lowered as ``schedule`` says.

        Raises
        ------
        ScheduleError
            When it is no schedule of this function.
        """
        self.check(schedule)
        function = self.graph.function
        known = self._compiled.find(schedule, self.prepared.get_global_var(function))
        return known or self._emit({function: schedule})

    def trace(self, schedule: Schedule, repeat: int = 20) -> Timeline:
        """Run a schedule on random inputs, and return the timeline of the fastest of several runs.

        Workers of a CUDA device are streams.

        Raises
        ------
        ScheduleError
            When it is no schedule of this function, when it names kernels that cannot be had here,
            or when none of its stages can be run.
        """
        self.check(schedule)
        check_kernels(schedule, self.graph, self.stage_builder)
        self.use(self._builder_of(schedule))
        network = self.network({self.graph.function: schedule})
        inputs = self.random_inputs(self.options.seed)
        return self.backend.trace(network, inputs, self.pool, repeat)

    def random_inputs(self, seed: int) -> list[tvm.runtime.Tensor | tuple[Any, ...]]:
        """Inputs that the network takes: its indices are of something that is there."""
        integers = int(max(1, min(2, smallest_extent(self.prepared))))
        return random_inputs(self.prepared[self.graph.function], seed, integers)

    def compile(self, schedules: Mapping[str, Schedule]) -> Variants:
        """Compile the whole model under each schedule, to be timed where stages are measured."""
        inputs = self.random_inputs(self.options.seed)
        with progress("compiling models", 2) as advance:
            module = self._emit(schedules)
            self._compiled.keep(module, schedules)
            advance(1)
            compiled = self.backend.compile(module, list(schedules), inputs, self.pool)
            advance(1)
        return compiled

    def applied(self, schedule: Schedule) -> Schedule:
        """Return a schedule as it is applied here, where the options may differ from it.

        Kernels that were chosen without Winograd's algorithm are chosen anew where it is allowed.
        """
        if schedule.winograd == self.winograd:
            return schedule
        operators = schedule.operators
        if self.winograd:
            variants = {
                op.name: self.stage_builder.variant(op.index) for op in self.graph.operators
            }
            operators = tuple(replace(op, kernel=variants.get(op.name)) for op in operators)
        parts = {name: self.parts[name].applied(part) for name, part in schedule.parts.items()}
        return replace(schedule, winograd=self.winograd, operators=operators, parts=parts)

    @property
    def winograd(self) -> bool:
        """Whether convolutions may be computed by Winograd's algorithm."""
        return self.options.winograd is not False

    def check(self, schedule: Schedule) -> None:
        """Raise ScheduleError unless it is one of this function, and can be applied as it says."""
        check_schedule(schedule, self.graph, str(self.target), self.workers)
        if schedule.parts.keys() != self.parts.keys():
            raise ScheduleError("The schedule is of a network with other branches and loops.")
        for name, part in self.parts.items():
            part.check(schedule.parts[name])
        if self.options.winograd is None and not schedule.winograd:
            raise ScheduleError(
                "The schedule was made without Winograd's algorithm; give Options(winograd=False)."
            )

    def _emit(self, schedules: Mapping[str, Schedule]) -> tvm.IRModule:
        """Return a module with one function for each schedule, of its name."""
        return self.backend.emit([self.network(schedules)])

    def network(self, schedules: Mapping[str, Schedule]) -> Network[Any]:
        """Return the function to emit, by several schedules or by one.

        Parameters
        ----------
        schedules : mapping of str to Schedule
            By the name of the function that each becomes.
        """
        variants = {name: self._lowered(schedule) for name, schedule in schedules.items()}
        chosen = next(iter(schedules.values())).parts
        parts = [part.network({name: chosen[name]}) for name, part in self.parts.items()]
        return Network(self.prepared, self.graph.function, variants, parts)

    def lower(self, schedule: Schedule) -> Stages[Any]:
        """Return a schedule's stages as the back end runs them."""
        return self._lowered(schedule).stages

    def _lowered(self, schedule: Schedule) -> LoweredSchedule[Any]:
        """Return a schedule with the kernels that it names, and the memory that these share."""
        builder = self._builder_of(schedule)
        stages, lowered = ScheduleLowering(builder).lower(schedule), builder.lowered
        return LoweredSchedule(stages, schedule.synchronization, lowered.slots, lowered.layouts)

    def _builder_of(self, schedule: Schedule) -> AnyStageBuilder:
        return self.stage_builder.chosen(kernels_of(schedule), lean_kernels_of(schedule))

    def use(self, stage_builder: AnyStageBuilder) -> None:
        """Build stages of other kernels from now on; runners have the memory of these."""
        if stage_builder is not self.stage_builder:
            self.close()
            vars(self).pop("pool", None)
            self.stage_builder = stage_builder

    def close(self) -> None:
        """Leave the devices to others; nothing is measured any more."""
        for part in self.parts.values():
            part.close()
        if "pool" in vars(self):
            self.pool.close()

    def _replacements(self) -> Replacements[Any]:
        """Return the sets of operators that the search may replace by one."""
        if "merge" in self.options.strategies:
            return self.stage_builder.replacements
        return Replacements.none(len(self.graph.operators))

    def _schedule(self, candidates: Iterable[Candidate], name: str) -> Schedule:
        """Return the stages, of operator indices, as a schedule with their prices."""
        stages = list(candidates)
        seconds = self.cost.in_network(stages)
        scheduled = tuple(
            ScheduledStage(
                groups_of(stage, self.graph),
                self._strategy(stage),
                self.cost.partitioning(stage),
                float(latency),
                self._apart(stage),
            )
            for stage, latency in zip(stages, seconds, strict=True)
        )
        schedule = self._new_schedule(map(self._timed, self.graph.operators), scheduled)
        estimates = {name: float(seconds.sum())}
        return replace(schedule, estimates=estimates, measurements=self.cost.measurements)

    def _apart(self, candidate: Candidate) -> float | None:
        """Return the price of a stage's operators as stages of their own; None if it has one."""
        return sum(self._alone[op] for op in candidate.ops) if len(candidate.ops) > 1 else None

    @cached_property
    def _alone(self) -> dict[int, float]:
        """The price of each operator in the sequential schedule, which runs once to be priced."""
        stages = list(sequential(self.graph.dag))
        seconds = self.cost.in_network(stages).tolist()
        return {stage.ops[0]: price for stage, price in zip(stages, seconds, strict=True)}

    def _strategy(self, candidate: Candidate) -> str:
        """Return a candidate's strategy: ``concurrent`` where nothing replaces its operators."""
        replaced = self.stage_builder.replacements.find(candidate.ops) is not None
        return candidate.strategy if replaced else "concurrent"

    def _new_schedule(
        self, operators: Iterable[ScheduledOperator], stages: Iterable[ScheduledStage]
    ) -> Schedule:
        """Return a schedule of this function for this target."""
        return Schedule(
            model=fingerprint(self.graph),
            function=self.graph.function,
            target=str(self.target),
            workers=self.workers,
            operators=tuple(operators),
            stages=tuple(stages),
            winograd=self.winograd,
            synchronization=self.stage_builder.synchronization,
            rounding=self.rounding,
            parts={
                name: self.part_schedules.get(name) or part.unsearched()
                for name, part in self.parts.items()
            },
        )

    def _timed(self, op: Operator) -> ScheduledOperator:
        """Describe an operator, with its time by the cost model."""
        implementation = self.stage_builder.lowered.implementations[op.index]
        if implementation is None:
            return describe(op, self.graph, self.stage_builder)
        seconds = self.cost.operator_seconds[implementation.kernel.key]
        return describe(op, self.graph, self.stage_builder, seconds)
