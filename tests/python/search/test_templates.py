# SPDX-License-Identifier: Apache-2.0
"""Equal blocks are searched once, and only equal ones."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import tvm
from tvm import relax

from support.networks import NATIVE, conv, few_stages, relax_module
from tvm_ios.backend.cpu.replace.table import RULES
from tvm_ios.compiler.check import check_schedule
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.graph.dag import Candidate, Dag
from tvm_ios.lowering.replacements.find import (
    Replacement,
    Replacements,
    find_replacements,
)
from tvm_ios.options import Options
from tvm_ios.schedule import Schedule
from tvm_ios.search import ScheduleSpace, cuts, partition
from tvm_ios.search import block as block_search
from tvm_ios.search import network as network_search
from tvm_ios.search.templates import Template, find_templates

Emit = Callable[[relax.Expr], relax.Var]
op = relax.op


def cell(emit: Emit, x: relax.Expr, width: int = 32, kernel: int = 3, seed: int = 0) -> relax.Expr:
    """A pool beside two convolutions of different inputs, added up: four operators."""
    pooled = emit(op.nn.max_pool2d(x, (3, 3), padding=1))
    left = emit(op.nn.relu(emit(conv(x, width, kernel, seed=seed))))
    right = emit(op.nn.relu(emit(conv(pooled, width, 1, seed=seed + 1))))
    return emit(op.nn.avg_pool2d(emit(op.add(left, right)), (3, 3), padding=1))


def cells(*kernels: int, body: Callable[..., relax.Expr] = cell) -> tvm.IRModule:
    """Cells in a row, which differ by the first convolution's kernel."""

    def network(emit: Emit, x: relax.Expr) -> relax.Expr:
        for i, kernel in enumerate(kernels):
            x = body(emit, x, kernel=kernel, seed=2 * i)
        return x

    return relax_module(network, (1, 32, 8, 9))


def templates_of(
    mod: tvm.IRModule, size: int, returned: Sequence[int] = ()
) -> tuple[Scheduler, list[Template]]:
    """The templates of the blocks of a network; the results of ``returned`` leave it."""
    scheduler = Scheduler.prepare(mod, NATIVE, cost_model=few_stages)
    lowered = scheduler.stage_builder.lowered
    replacements = find_replacements(lowered, RULES)
    blocks = partition(scheduler.graph.dag, size, replacements.together)
    values = [v for i in returned for v in scheduler.graph.operators[i].outputs]
    return scheduler, find_templates(lowered, replacements, values, blocks)


def numbers(mod: tvm.IRModule, size: int) -> list[int]:
    return [template.block for template in templates_of(mod, size)[1]]


def operators_of_a_cell() -> int:
    return len(Scheduler.prepare(cells(3), NATIVE, cost_model=few_stages).graph.operators)


def test_equal_cells_have_one_template() -> None:
    """Whatever their weights; the last cell's result is the network's, and lies differently."""
    assert numbers(cells(3, 3, 3, 3, 3), operators_of_a_cell())[1:4] == [1, 1, 1]


def test_counterparts_compute_the_same_in_the_same_place() -> None:
    scheduler, templates = templates_of(cells(3, 3, 3, 3), operators_of_a_cell())
    graph = scheduler.graph
    (copy,) = (t for n, t in enumerate(templates) if t.block != n)
    assert list(copy.counterparts) != list(copy.counterparts.values())
    for first, other in copy.counterparts.items():
        assert graph.operators[first].signature == graph.operators[other].signature
    inside = [(u, v) for u, v in graph.edges if {u, v} <= copy.counterparts.keys()]
    assert inside
    assert all((copy.counterparts[u], copy.counterparts[v]) in graph.edges for u, v in inside)


def test_other_operators_are_another_template() -> None:
    """A kernel of one cell is larger."""
    assert numbers(cells(3, 3, 5, 3, 3), operators_of_a_cell())[1:4] == [1, 2, 1]


def test_other_wiring_is_another_template() -> None:
    """The same operators, of which two read what is pooled."""

    def crossed(emit: Emit, x: relax.Expr, kernel: int, seed: int) -> relax.Expr:
        if seed != 4:
            return cell(emit, x, kernel=kernel, seed=seed)
        pooled = emit(op.nn.max_pool2d(x, (3, 3), padding=1))
        left = emit(op.nn.relu(emit(conv(pooled, 32, kernel, seed=seed))))
        right = emit(op.nn.relu(emit(conv(pooled, 32, 1, seed=seed + 1))))
        return emit(op.nn.avg_pool2d(emit(op.add(left, right)), (3, 3), padding=1))

    assert numbers(cells(3, 3, 3, 3, 3, body=crossed), operators_of_a_cell())[1:4] == [1, 2, 1]


def test_what_is_read_outside_is_part_of_a_template() -> None:
    """One convolution of the third cell is also a result of the network."""
    size = operators_of_a_cell()
    _, templates = templates_of(cells(3, 3, 3, 3, 3), size, [2 * size + 1])
    assert [t.block for t in templates][1:4] == [1, 2, 1]


def test_places_in_a_concatenation_are_part_of_a_template() -> None:
    """Parts are written in place; in the third cell they lie the other way round."""

    def concatenating(emit: Emit, x: relax.Expr, kernel: int, seed: int) -> relax.Expr:
        left = emit(op.nn.relu(emit(conv(x, 16, kernel, seed=seed))))
        right = emit(op.nn.relu(emit(conv(left, 16, 1, seed=seed + 1))))
        parts = [right, left] if seed == 4 else [left, right]
        return emit(op.nn.max_pool2d(emit(op.concat(parts, axis=1)), (3, 3), padding=1))

    def network(emit: Emit, x: relax.Expr) -> relax.Expr:
        for seed in (0, 2, 4, 6, 8):
            x = concatenating(emit, x, 3, seed)
        return x

    mod = relax_module(network, (1, 32, 8, 9))
    assert Scheduler.prepare(mod, NATIVE, cost_model=few_stages).stage_builder.lowered.slots
    assert numbers(mod, 4)[1:4] == [1, 2, 1]


def test_places_in_a_result_that_another_block_writes_are_part_of_a_template() -> None:
    """Two equal convolutions, each a block of its own, of which one lies behind the other."""

    def network(emit: Emit, x: relax.Expr) -> relax.Expr:
        parts = [emit(conv(x, 16, seed=seed)) for seed in (1, 2)]
        return emit(op.nn.max_pool2d(emit(op.concat(parts, axis=1)), (3, 3), padding=1))

    mod = relax_module(network, (1, 32, 8, 9))
    lowered = Scheduler.prepare(mod, NATIVE, cost_model=few_stages).stage_builder.lowered
    assert {slot.offset for slot in lowered.slots.values()} > {0}
    count = len(lowered.graph.operators)
    none = Replacements.none(count)
    found = find_templates(lowered, none, (), [[i] for i in range(count)])
    assert [template.block for template in found] == list(range(count))


def numbers_by(replaceable: Callable[[int], Replacements]) -> list[int]:
    """The templates of the inner three of five equal cells, by what may be replaced in them.

    A cell is a pooling, two convolutions, and a pooling.
    """
    size = operators_of_a_cell()
    scheduler = Scheduler.prepare(cells(3, 3, 3, 3, 3), NATIVE, cost_model=few_stages)
    blocks = [list(range(i, i + size)) for i in range(0, 5 * size, size)]
    lowered = scheduler.stage_builder.lowered
    found = find_templates(lowered, replaceable(size), (), blocks)
    return [template.block for template in found][1:4]


@pytest.mark.parametrize(("chosen", "expected"), [([2], [1, 2, 1]), ([1, 2, 3], [1, 1, 1])])
def test_what_may_merge_is_part_of_a_template(chosen: list[int], expected: list[int]) -> None:
    """The convolutions of some cells may merge."""

    def replaceable(size: int) -> Replacements:
        classes = [-1] * (5 * size)
        for number in chosen:
            classes[number * size + 1] = classes[number * size + 2] = number
        return Replacements(tuple(classes))

    assert numbers_by(replaceable) == expected


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        ({2: "a"}, [1, 2, 1]),
        ({1: "a", 2: "a", 3: "a"}, [1, 1, 1]),
        ({1: "a", 2: "b", 3: "a"}, [1, 2, 1]),
    ],
)
def test_what_may_be_replaced_is_part_of_a_template(
    sets: dict[int, str], expected: list[int]
) -> None:
    """A convolution and the pooling behind it, by the rule of this name."""

    def replaceable(size: int) -> Replacements:
        first = {number: number * size + 2 for number in sets}
        found = {(op, op + 1): Replacement(sets[n], lambda _: None) for n, op in first.items()}
        return Replacements((-1,) * (5 * size), found)

    assert numbers_by(replaceable) == expected


def test_labels_are_the_same_in_every_process() -> None:
    """No address and no order of a set is in what is hashed."""
    scheduler, _ = templates_of(cells(3, 3), 4)
    for operator, implementation in zip(
        scheduler.graph.operators, scheduler.stage_builder.lowered.implementations, strict=True
    ):
        text = f"{operator.signature} {implementation.kernel.key!r}"
        assert " at 0x" not in text
        assert "set(" not in text


def counting(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the blocks that are searched from now on."""
    searched = []

    def explore(dag: Dag, *sets: object, **limits: object) -> ScheduleSpace:
        searched.append(dag.num_ops)
        return ScheduleSpace(dag, *sets, **limits)

    monkeypatch.setattr(block_search, "ScheduleSpace", explore)
    return searched


def test_equal_blocks_are_searched_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The schedule found fits the network, and equal blocks have equal stages.

    A network that is also searched as a whole, or around its cuts, may have others.
    """
    monkeypatch.setattr(network_search, "_WHOLE", 1)
    monkeypatch.setattr(cuts, "WINDOW", 0)
    searched = counting(monkeypatch)
    size = operators_of_a_cell()
    scheduler = Scheduler.prepare(
        cells(3, 3, 3, 3, 3), NATIVE, options=Options(max_block_size=size)
    )
    with caplog.at_level(logging.INFO, logger="tvm_ios"):
        schedule = scheduler.search()
    assert searched == [size] * 3 + [5 * size]  # and the whole, which is too large
    assert f"{5 * size} operators in 5 blocks, of which 3 are searched" in caplog.text
    check_schedule(schedule, scheduler.graph)
    names = {o.name: o.index for o in scheduler.graph.operators}
    stages = [
        [[[names[n] for n in g] for g in s.groups] for s in schedule.stages
         if names[s.groups[0][0]] // size == block]
        for block in (1, 2, 3)
    ]  # fmt: skip
    shifted = [[[i - size for i in g] for g in s] for s in stages[1]]
    assert [sorted(map(sorted, s)) for s in shifted] == [sorted(map(sorted, s)) for s in stages[0]]


def test_given_prices_may_tell_equal_blocks_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cost model of the user's knows operators, so all blocks are searched."""
    searched = counting(monkeypatch)
    size = operators_of_a_cell()

    def dear(_graph: object, candidates: Sequence[Candidate]) -> np.ndarray:
        """Stages of several operators pay in the third cell only."""
        return np.array([1.0 if 2 * size <= min(c.ops) < 3 * size else len(c.ops) ** 2.0
                         for c in candidates])  # fmt: skip

    options = Options(max_block_size=size)
    schedule = Scheduler.prepare(
        cells(3, 3, 3, 3, 3), NATIVE, cost_model=dear, options=options
    ).search()
    assert searched == [size] * 5 + [5 * size]
    assert sum(len(stage.operators) > 1 for stage in schedule.stages) > 0


@pytest.mark.parametrize("small_enough", [True, False])
def test_a_small_network_is_searched_as_a_whole(
    small_enough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is found is what a search without blocks finds; else what the cuts cost is unknown."""
    size, mod = operators_of_a_cell(), cells(3, 3, 3)
    if not small_enough:
        monkeypatch.setattr(network_search, "_WHOLE", 1)
        monkeypatch.setattr(cuts, "WINDOW", 0)

    def across(_graph: object, candidates: Sequence[Candidate]) -> np.ndarray:
        """A stage costs the same whatever it has, but more inside of a cell than across cells."""
        cells_of = [len({op // size for op in c.ops}) for c in candidates]
        return np.array([1.0 / cells for cells in cells_of])

    def search(block: int) -> Schedule:
        options = Options(max_block_size=block)
        return Scheduler.prepare(mod, NATIVE, cost_model=across, options=options).search()

    found, best = search(size), search(3 * size)
    assert best.partition_gap == 0.0
    assert found.partition_gap == (0.0 if small_enough else None)
    gap = found.estimates["scheduled"] - best.estimates["scheduled"]
    assert gap == 0.0 if small_enough else gap > 0.0


def test_carried_over_stages_keep_their_strategy() -> None:
    scheduler = Scheduler.prepare(cells(3), NATIVE, cost_model=few_stages)
    none = Replacements.none(len(scheduler.graph.operators))
    search = network_search.NetworkSearch(
        scheduler.stage_builder.lowered, none, scheduler.results, Options()
    )
    stages = search.explore([0, 1], scheduler.cost).solve().stages
    carried = [Template(0, {0: 7, 1: 9}).counterpart(stage) for stage in stages]
    assert [c.strategy for c in carried] == [s.strategy for s in stages]
    assert {op for c in carried for op in c.ops} == {7, 9}
