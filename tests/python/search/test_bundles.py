# SPDX-License-Identifier: Apache-2.0
"""Operators that do nothing are searched together with those that they come with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tvm
from tvm import relax

from support.networks import NATIVE, check_scheduled, constant, conv, few_stages, relax_module
from tvm_ios.compiler.check import check_schedule
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.graph.dag import Candidate
from tvm_ios.graph.operators import OperatorGraph
from tvm_ios.search.bundles import Bundles

op = relax.op


def branches(emit: Callable[..., relax.Var], x: relax.Expr) -> relax.Expr:
    """Two products of different inputs, each seen in another shape before and behind it."""
    found = []
    for begin in (0, 6):
        part = emit(op.nn.relu(emit(op.strided_slice(x, [1], [begin], [begin + 6]))))
        matrix = emit(op.reshape(part, (3, 4)))
        product = emit(op.matmul(matrix, constant(4, 5 + begin)))
        row = emit(op.reshape(product, (1, 15 + 3 * begin)))
        found.append(emit(op.matmul(row, constant(15 + 3 * begin, 7))))
    return emit(op.concat(found, axis=1))


MOD = relax_module(branches, (2, 12))


def _bundles(scheduler: Scheduler) -> Bundles:
    builder = scheduler.stage_builder
    return Bundles.of(builder.lowered, builder.replacements)


def _scheduler(mod: tvm.IRModule = MOD) -> Scheduler:
    return Scheduler.prepare(mod, NATIVE, cost_model=few_stages)


def _chain(graph: OperatorGraph) -> tuple[int, int, int]:
    """Return a product, the view of its result, and what reads that."""
    product = next(o.index for o in graph.operators if o.kind == "matmul")
    (view,) = (v for u, v in graph.edges if u == product)
    (reader,) = (v for u, v in graph.edges if u == view)
    return product, view, reader


def test_views_stand_with_others() -> None:
    scheduler = _scheduler()
    bundles = _bundles(scheduler)
    kinds = {o.index: o.kind for o in scheduler.graph.operators}
    views = [o for o, kind in kinds.items() if kind == "reshape"]
    assert len(views) == 4
    for view in views:
        assert bundles.homes[view] != view
    assert all(bundles.homes[o] == o for o, kind in kinds.items() if kind != "reshape")
    homes = bundles.within(kinds)
    assert bundles.dag(homes).num_ops == len(kinds) - 4
    assert bundles.members(homes) == sorted(kinds)


def test_a_stage_has_the_views_that_connect_it() -> None:
    scheduler = _scheduler()
    graph, bundles = scheduler.graph, _bundles(scheduler)
    product, view, reader = _chain(graph)
    assert bundles.stage([product], "concurrent").ops == (product,)
    assert bundles.stage([reader, product], "concurrent").ops == (product, view, reader)


def test_every_operator_is_in_the_schedule_once() -> None:
    scheduler = _scheduler()
    schedule = scheduler.search()
    check_schedule(schedule, scheduler.graph)
    names = [name for stage in schedule.stages for name in stage.operators]
    assert sorted(names) == sorted(o.name for o in scheduler.graph.operators)
    check_scheduled(MOD)


def test_views_cost_nothing_and_are_not_asked_for() -> None:
    asked: list[Candidate] = []

    def count(graph: OperatorGraph, candidates: Sequence[Candidate]) -> np.ndarray:
        asked.extend(candidates)
        return np.array([float(len(c.ops)) for c in candidates])

    scheduler = Scheduler.prepare(MOD, NATIVE, cost_model=count)
    views = {o.index for o in scheduler.graph.operators if o.kind == "reshape"}
    scheduler.search()
    of_one = [c.ops[0] for c in asked[: len(asked) // 2] if len(c.ops) == 1]
    assert of_one
    assert not views.intersection(of_one)


def test_a_concatenation_in_place_is_an_operator_like_others() -> None:
    """It does nothing, either, but a stage that has it cannot be computed by row strips."""

    def body(emit: Callable[..., relax.Var], x: relax.Expr) -> relax.Expr:
        arms = [emit(conv(x, 16, seed=seed)) for seed in (0, 1)]
        return emit(conv(emit(op.concat(arms, axis=1)), 16, seed=2))

    scheduler = _scheduler(relax_module(body, (1, 16, 6, 6)))
    builder = scheduler.stage_builder
    (concat,) = (o.index for o in scheduler.graph.operators if o.kind == "concat")
    assert builder.stage_of([concat], "concurrent").is_noop
    assert _bundles(scheduler).homes[concat] == concat
    producer = scheduler.graph.predecessors[concat][0]
    alone = builder.stage_of([producer], "concurrent")
    assert builder.stage_of([producer, concat], "concurrent").key != alone.key


def test_a_stage_says_what_its_operators_take_apart() -> None:
    """In the model of these prices each stage takes a second."""
    schedule = _scheduler().search()
    several = [stage for stage in schedule.stages if len(stage.operators) > 1]
    assert several
    assert all(stage.apart == len(stage.operators) for stage in several)
    assert all(stage.apart is None for stage in schedule.stages if stage not in several)
