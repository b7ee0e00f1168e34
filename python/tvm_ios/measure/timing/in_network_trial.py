# SPDX-License-Identifier: Apache-2.0
"""In-network trials: runs of the network that time candidate stages where they will run.

A stage that is run alone finds its inputs and weights in other caches than in the network. Stages
are therefore timed inside of a run of the network, whose other operators are stages of their own. A
single run times as many candidates as fit into it, and leaves out what is far from all of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from ...lowering.stages import AnyStage, AnyStageBuilder

_LEAD = 4  # stages that run before one that is timed: more than what L2 keeps of them


@dataclass(frozen=True)
class InNetworkTrial:
    """Stages that run one after another, of which some are timed.

    Attributes
    ----------
    stages : tuple of Stage
        In the order in which they run.
    wanted : frozenset
        The keys of those that are timed.
    """

    stages: tuple[AnyStage, ...]
    wanted: frozenset[Hashable]


def in_network_trials(
    stage_builder: AnyStageBuilder, stages: Iterable[AnyStage], excluded: frozenset[int]
) -> list[InNetworkTrial]:
    """Divide stages among as few runs of the network as possible.

    Parameters
    ----------
    stage_builder : StageBuilder
        The stage builder.
    stages : iterable of Stage
        The stages to time.
    excluded : frozenset of int
        Operators that cannot run.
    """
    runs: list[list[AnyStage]] = []
    taken: list[set[int]] = []
    for stage in stages:
        ops = set(operators(stage))
        number = next((n for n, others in enumerate(taken) if not others & ops), len(runs))
        if number == len(runs):
            runs.append([])
            taken.append(set())
        runs[number].append(stage)
        taken[number] |= ops
    return [_completed(stage_builder, run, excluded) for run in runs]


def operators(stage: AnyStage) -> list[int]:
    """Return the operators that a stage computes."""
    return [op for implementation in stage.implementations for op in implementation.operators]


def _completed(
    stage_builder: AnyStageBuilder, wanted: Sequence[AnyStage], excluded: frozenset[int]
) -> InNetworkTrial:
    """Return the run of these stages and of all other operators.

    Stages that are free run nothing and have no place in it, but say what runs before what.
    """
    taken = {op for stage in wanted for op in operators(stage)} | excluded
    count = len(stage_builder.lowered.implementations)
    alone = [stage_builder.stage_of((op,), "concurrent") for op in range(count) if op not in taken]
    ordered = _in_order([*wanted, *alone], stage_builder.lowered.graph.predecessors)
    stages = [stage for stage in ordered if not stage.is_noop]
    timed = {id(stage) for stage in wanted}
    last = len(stages)  # a stage that is timed, at or behind the current one
    kept = []
    for number in reversed(range(len(stages))):
        last = number if id(stages[number]) in timed else last
        if number <= last <= number + _LEAD and last < len(stages):
            kept.append(stages[number])
    return InNetworkTrial(tuple(reversed(kept)), frozenset(stage.key for stage in wanted))


def _in_order(stages: Sequence[AnyStage], predecessors: Sequence[Iterable[int]]) -> list[AnyStage]:
    """Return the stages in an order in which each follows those that it reads from.

    Stages that were not chosen together may have to run before each other. The one with the first
    operator then runs first: it computes the same from the values of the run before.
    """
    stage_of = {op: n for n, stage in enumerate(stages) for op in operators(stage)}
    before = [
        {stage_of[p] for op in operators(stage) for p in predecessors[op] if p in stage_of} - {n}
        for n, stage in enumerate(stages)
    ]
    left = sorted(range(len(stages)), key=lambda n: min(operators(stages[n])))
    done: set[int] = set()
    order = []
    while left:
        number = next((n for n in left if before[n] <= done), left[0])
        left.remove(number)
        done.add(number)
        order.append(stages[number])
    return order
