# SPDX-License-Identifier: Apache-2.0
"""From a Relax module to a schedule and back: the steps that the pass and the commands share."""

from __future__ import annotations

import logging
import math
import os
import time
import weakref
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import tvm

from .cost_model import CostModel, GivenCost, Prices, StageCost, estimated_seconds
from .database import MeasurementDatabase
from .errors import OptionError, ScheduleError
from .graph.extract import extract
from .graph.operators import Operator, OperatorGraph
from .graph.prepare import prepare
from .lower.assemble import Assembler
from .lower.implement import implement
from .lower.inplace import place_concatenations
from .lower.network import Stages, choose_way, emit_ways
from .lower.region import LoweredStage
from .lower.replace import Replacements
from .lower.rules import Preferences
from .lower.tuned import active_database
from .measure.cost import MeasuredCost
from .measure.device import weights_from
from .measure.devices import Devices
from .measure.model import CompiledWays, Ways, random_inputs
from .measure.progress import progress
from .measure.records import Records
from .measure.remote_model import RemoteWays
from .measure.sites import Here, Site
from .schedule import Schedule, ScheduledOperator, ScheduledStage
from .search import (
    STRATEGIES,
    Candidate,
    Dag,
    ScheduleSpace,
    Stage,
    greedy,
    partition,
    partition_cost,
    sequential,
)
from .target import TYPICAL, core_of, num_workers
from .templates import Template, carry_over, find_templates, own_template

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class BlockSearch:
    """The schedules of a block and what is known of their prices.

    Attributes
    ----------
    block : sequence of int
        Its operators.
    space : ScheduleSpace
        Of the operators' places in the block.
    prices : Prices
    """

    block: Sequence[int]
    space: ScheduleSpace
    prices: Prices

    def solve(self) -> list[Stage]:
        """The stages, of operators of the graph, of the schedule cheapest by what is known."""
        return [
            Stage([[self.block[i] for i in g] for g in stage.groups], stage.strategy, stage.latency)
            for stage in self.space.solve(self.prices.bounds()).stages
        ]


@dataclass(frozen=True)
class Options:
    """Options of the search.

    Attributes
    ----------
    max_group_size, max_num_groups : int or None
        The pruning limits r and s; None for no limit.
    max_block_size : int
        Operators searched together. The states of a randomly wired block grow exponentially with
        it: one of 16 has some 10,000, one of 50 would never end.
    seed : int
        Of the random inputs that stages are measured with, and of what is learned from them.
    measure_all : bool
        Measure every stage that the search may choose, instead of those alone that could change
        the schedule by what is learned from the others.
    caution : float
        How much faster than expected a stage may turn out to be, in standard deviations of what
        is predicted: the larger, the more stages are measured, and the less is missed.
    winograd : bool
        Whether convolutions may be computed by Winograd's minimal filtering, which rounds
        differently, where that is faster.
    database : path or None
        The file that measurements are kept in and taken from; None for none.
    strategies : sequence of str
        What stages the search may form: ``concurrent``, operators side by side and one after
        another; ``merge``, operators replaced by one. Without the first an operator that is not
        replaced has a stage of its own. These are PS and TS of IOPS (section 3.1).
    """

    max_group_size: int | None = 3
    max_num_groups: int | None = 8
    max_block_size: int = 16
    seed: int = 0
    measure_all: bool = False
    caution: float = 1.0
    winograd: bool = True
    database: str | os.PathLike[str] | None = None
    strategies: Sequence[str] = STRATEGIES

    def __post_init__(self) -> None:
        named = () if isinstance(self.strategies, str) else tuple(self.strategies)
        if not named or len(set(named)) < len(named) or not set(named) <= set(STRATEGIES):
            given = self.strategies if not named else ",".join(map(str, named))
            raise OptionError(f"strategies must name concurrent, merge or both, got {given!r}.")
        for name in ("max_group_size", "max_num_groups", "max_block_size"):
            value = getattr(self, name)
            if value is None and name != "max_block_size":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise OptionError(f"{name} must be a whole number of at least 1, got {value!r}.")
        if not isinstance(self.caution, (int, float)) or not 0 <= self.caution < math.inf:
            raise OptionError(f"caution must be a number of at least 0, got {self.caution!r}.")


class Scheduler:
    """Schedules one function of a module for one target.

    Parameters
    ----------
    mod : tvm.IRModule
        A high-level Relax module.
    target : str or tvm.target.Target
        A CPU target; taken as given, see :func:`tvm_ios.target.resolve`.
    function : str
    cost_model : "measure" or callable
        Stages are measured on this machine, or priced by a :data:`~tvm_ios.cost_model.StageCost`.
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
        self._site = site or Here()
        self.target = self._site.target(target)
        self.options = options or Options()
        self.workers = num_workers(self.target)
        self.prepared = prepare(mod, function)
        self.graph: OperatorGraph = extract(self.prepared, function)
        body = self.prepared[function].body.body
        results = self._results = tvm.relax.analysis.free_vars(body)
        database = self.options.database
        self._database = None if database is None else MeasurementDatabase(database)
        preferences = Preferences(
            core_of(self.target),
            self.options.winograd,
            self.workers,
            active_database(),
            self._site.transfers(self.target, self._database) if self.options.winograd else TYPICAL,
        )
        lowered = place_concatenations(implement(self.graph, results, preferences))
        self._assembler = Assembler(lowered, self.workers)
        self._given_cost = cost_model
        self._cost: CostModel | None = None
        # What was compiled to be timed need not be compiled again to be used.
        self._ways: tvm.IRModule | None = None
        self._compiled: dict[str, Schedule] = {}

    @cached_property
    def _devices(self) -> Devices:
        """Who measures; they are given back when this object is no longer used."""
        devices = self._site.devices(self._assembler.lowered, self.target, self.options.seed)
        weakref.finalize(self, devices.close)
        return devices

    @property
    def cost(self) -> CostModel:
        """The cost model; kernels are compiled when it is first asked for."""
        if self._cost is None:
            if callable(self._given_cost):
                self._cost = GivenCost(self._given_cost, self._assembler)
            else:
                # xgboost takes a second to import, and GivenCost does not need it.
                from .learn import Examples, LatencyModel, LearnedCost

                device = self._site.identity(self.target)
                records = Records(self._database, device, weights_from(self._assembler.lowered))
                measured = MeasuredCost(self._devices, self._assembler, records)
                if self.options.measure_all:
                    self._cost = measured
                else:
                    model = LatencyModel(self.options.seed, self.options.caution)
                    self._cost = LearnedCost(measured, self._assembler, Examples(records), model)
        return self._cost

    def search(self) -> Schedule:
        """The cheapest schedule by the cost model: IOS's dynamic programme on each block.

        Stages of which only a bound is known may be chosen, too: their prices are found out and the
        programme is solved again, until it chooses nothing that is not known.
        """
        begin = time.perf_counter()
        replacements = self._replacements()
        together = replacements.together
        blocks = partition(self.graph.dag, self.options.max_block_size, together)
        templates = self._find_templates(blocks, replacements)
        stages = self._search_blocks(blocks, templates, replacements)
        return replace(
            self._schedule(stages, "scheduled"),
            search_seconds=time.perf_counter() - begin,
            branches_cut=partition_cost(self.graph.dag, blocks, together),
        )

    def unsearched(self) -> Schedule:
        """One operator a stage; nothing is measured."""
        operators = tuple(ScheduledOperator(op.name, op.kind) for op in self.graph.operators)
        return self._new_schedule(operators, [ScheduledStage(((op.name,),)) for op in operators])

    def sequential(self) -> Schedule:
        """The baseline: one operator a stage."""
        return self._schedule(sequential(self.graph.dag), "sequential")

    def greedy(self) -> Schedule:
        """The baseline: each stage takes all ready operators, at most ``max_num_groups``.

        An operator that must be alone is, in a stage of its own.
        """
        limit = self.options.max_num_groups or len(self.graph.operators)
        alone = self._assembler.lowered.alone
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
        operators = tuple(map(self._describe, self.graph.operators))
        mine = [(op.name, op.kind) for op in operators]
        if [(op.name, op.kind) for op in schedule.operators] != mine:
            raise ScheduleError(
                "The schedule was made for other operators; batch sizes of one network have the "
                "same."
            )
        stages = [self._adapt_stage(stage) for stage in schedule.stages]
        adapted = self._new_schedule(operators, stages)
        adapted.check(self.graph)
        return adapted

    def emit(self, schedule: Schedule) -> tvm.IRModule:
        """The module with the function lowered as ``schedule`` says.

        Raises
        ------
        ScheduleError
            When it is no schedule of this function.
        """
        schedule.check(self.graph, self.target)
        function = self.graph.function
        names = [name for name, known in self._compiled.items() if known.lowers_like(schedule)]
        if self._ways is None or not names:
            return self._emit({function: schedule})
        variable = self.prepared.get_global_var(function)
        return choose_way(self._ways, self._compiled, names[0], variable)

    def compile(self, schedules: Mapping[str, Schedule]) -> Ways:
        """The whole model under each schedule, ready to be timed or run where is measured."""
        inputs = random_inputs(self.prepared[self.graph.function], self.options.seed)
        with progress("compiling models", 2) as advance:
            self._ways, self._compiled = self._emit(schedules), dict(schedules)
            advance(1)
            if self._site.remote:
                compiled = RemoteWays(
                    self._ways,
                    list(schedules),
                    inputs,
                    self.target,
                    self._devices,
                    self._site.compiler,
                )
            else:
                compiled = CompiledWays(
                    self._ways, list(schedules), inputs, self.target, self.workers
                )
            advance(1)
        return compiled

    def _emit(self, schedules: Mapping[str, Schedule]) -> tvm.IRModule:
        """The function under each schedule, by the name it is given."""
        return emit_ways(
            self.prepared,
            self.graph.function,
            {name: self._lower(schedule) for name, schedule in schedules.items()},
            self._assembler.lowered.slots,
            self.workers,
            self.target,
        )

    def close(self) -> None:
        """Leave the devices to others; nothing is measured any more."""
        if "_devices" in vars(self):
            self._devices.close()

    def _replacements(self) -> Replacements:
        """What the search may replace."""
        if "merge" in self.options.strategies:
            return self._assembler.replacements
        return Replacements.none(len(self.graph.operators))

    def _find_templates(
        self, blocks: Sequence[Sequence[int]], replacements: Replacements
    ) -> list[Template]:
        """Which blocks need a search; all do where the user's prices may tell equal ones apart."""
        if callable(self._given_cost):
            templates = [own_template(number, block) for number, block in enumerate(blocks)]
        else:
            templates = find_templates(self._assembler.lowered, replacements, self._results, blocks)
        _logger.info(
            "%d operators in %d blocks, of which %d are searched and the others equal those; "
            "the cuts between them take away %d branches or merges",
            len(self.graph.operators),
            len(blocks),
            len({template.block for template in templates}),
            partition_cost(self.graph.dag, blocks, replacements.together),
        )
        return templates

    def _search_blocks(
        self,
        blocks: Sequence[Sequence[int]],
        templates: Sequence[Template],
        replacements: Replacements,
    ) -> list[Stage]:
        """The stages of all blocks, in order; a block that equals an earlier one takes its."""
        own = dict.fromkeys(template.block for template in templates)
        searches = {number: self._explore(blocks[number], replacements) for number in own}
        while True:
            found = {number: search.solve() for number, search in searches.items()}
            if not self.cost.settle([_candidate(stage) for s in found.values() for stage in s]):
                break
        return [stage for t in templates for stage in carry_over(found[t.block], t)]

    def _explore(self, block: Sequence[int], replacements: Replacements) -> BlockSearch:
        position = {op: i for i, op in enumerate(block)}
        edges = [
            (position[u], position[v])
            for u, v in self.graph.edges
            if u in position and v in position
        ]
        side_by_side = "concurrent" in self.options.strategies
        space = ScheduleSpace(
            Dag(len(block), edges),
            [replacements.classes[op] for op in block],
            [[position[op] for op in ops] for ops in replacements.within(block)],
            self.options.max_group_size if side_by_side else 1,
            self.options.max_num_groups if side_by_side else 1,
        )
        candidates = [_translate(c, block) for c in space.candidates]
        return BlockSearch(block, space, self.cost.prices(candidates))

    def _schedule(self, stages: Sequence[Stage], name: str) -> Schedule:
        """Stages of operator indices, priced, as a schedule."""
        candidates = list(map(_candidate, stages))
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
        schedule = self._new_schedule(map(self._describe, self.graph.operators), scheduled)
        estimates = {name: float(seconds.sum())}
        return replace(schedule, estimates=estimates, measurements=self.cost.measurements)

    def _strategy(self, candidate: Candidate) -> str:
        """A candidate's strategy; that of an operator that nothing replaces is ``concurrent``."""
        replaced = self._assembler.replacements.rule(candidate.ops) is not None
        return candidate.strategy if replaced else "concurrent"

    def _new_schedule(
        self, operators: Iterable[ScheduledOperator], stages: Iterable[ScheduledStage]
    ) -> Schedule:
        """A schedule of this function for this target."""
        return Schedule(
            model=self.graph.fingerprint,
            function=self.graph.function,
            target=str(self.target),
            workers=self.workers,
            operators=tuple(operators),
            stages=tuple(stages),
        )

    def _describe(self, op: Operator) -> ScheduledOperator:
        implementation = self._assembler.lowered.implementations[op.index]
        if implementation is None:
            return ScheduledOperator(op.name, op.kind)
        seconds = self.cost.operator_seconds[implementation.kernel.key]
        return ScheduledOperator(op.name, op.kind, seconds)

    def _lower(self, schedule: Schedule) -> Stages:
        """The stages of a schedule; work is divided by the operator times that it holds."""
        costs = estimated_seconds(self._assembler)
        seconds = {o.name: o.seconds for o in schedule.operators}
        for op in self.graph.operators:
            implementation = self._assembler.lowered.implementations[op.index]
            known = seconds.get(op.name)
            if implementation is not None and known:
                costs[implementation.kernel.key] = known
        return [self._lower_stage(stage, costs) for stage in schedule.stages]

    def _lower_stage(
        self, stage: ScheduledStage, costs: Mapping[Hashable, float]
    ) -> LoweredStage | Operator:
        index = {op.name: op.index for op in self.graph.operators}
        groups = [[index[name] for name in group] for group in stage.groups]
        ops = [i for group in groups for i in group]
        alone = [i for i in ops if i in self._assembler.lowered.alone]
        if alone and len(ops) > 1:
            name = self.graph.operators[alone[0]].name
            raise ScheduleError(f"Operator {name!r} has no kernel; give it a stage of its own.")
        if alone:
            return self.graph.operators[alone[0]]
        if stage.strategy == "merge":
            self._check_merge(ops)
        form = self._assembler.form(groups, stage.strategy)
        if stage.division == "bands" and "bands" not in self._assembler.divisions(form, costs):
            names = ", ".join(self.graph.names(ops))
            raise ScheduleError(
                f"No bands can be cut of these operators: {names}; divide by tiles."
            )
        return self._assembler.stage(form, stage.division, costs)

    def _adapt_stage(self, stage: ScheduledStage) -> ScheduledStage:
        """The stage with its work divided as it is, if that is possible here."""
        index = {op.name: op.index for op in self.graph.operators}
        groups = [[index[name] for name in group] for group in stage.groups]
        ops = [i for group in groups for i in group]
        if self._assembler.lowered.alone.intersection(ops):
            return replace(stage, seconds=None)
        if stage.strategy == "merge":
            self._check_merge(ops)
        form = self._assembler.form(groups, stage.strategy)
        possible = self._assembler.divisions(form, self.cost.operator_seconds)
        division = stage.division if stage.division in possible else "tiles"
        return replace(stage, division=division, seconds=None)

    def _check_merge(self, ops: Sequence[int]) -> None:
        if len(ops) > 1 and self._assembler.replacements.rule(ops) is None:
            names = ", ".join(self.graph.names(ops))
            raise ScheduleError(f"The schedule merges operators that cannot be merged: {names}.")


def _candidate(stage: Stage) -> Candidate:
    """What the cost model is asked to price for a stage."""
    return Candidate(tuple(sorted(i for group in stage.groups for i in group)), stage.strategy)


def _translate(candidate: Candidate, block: Sequence[int]) -> Candidate:
    """A candidate of a block in terms of the whole graph."""
    return Candidate(tuple(sorted(block[i] for i in candidate.ops)), candidate.strategy)
