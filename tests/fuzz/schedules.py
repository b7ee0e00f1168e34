# SPDX-License-Identifier: Apache-2.0
"""Schedules of a network that nobody has measured: drawn, or found under random prices."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.graph.dag import Candidate, components
from tvm_ios.graph.operators import OperatorGraph
from tvm_ios.lowering.schedule_lowering import ScheduleLowering
from tvm_ios.schedule import Schedule, ScheduledStage

from .choices import Choices


class RandomPrices:
    """A cost model: a stage's price depends on its operators and the seed, and on nothing else.

    Parameters
    ----------
    seed : int
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __call__(self, _graph: OperatorGraph, candidates: Sequence[Candidate]) -> np.ndarray:
        return np.array([self._price(candidate) for candidate in candidates])

    def _price(self, candidate: Candidate) -> float:
        text = f"{self._seed} {sorted(candidate.ops)} {candidate.strategy}"
        return (1 + zlib.crc32(text.encode()) % 1000) * len(candidate.ops) ** 0.5


def schedule_of(scheduler: Scheduler, choices: Choices, random: np.random.Generator) -> Schedule:
    """The schedule that is to be applied."""
    if choices.variant == "drawn":
        schedule = _drawn(scheduler, random)
    else:
        schedule = getattr(scheduler, choices.variant)()
    if choices.partitioning:
        schedule = ScheduleLowering(scheduler.stage_builder).repartition(
            schedule, choices.partitioning
        )
    return replace(schedule, synchronization=choices.synchronization)


def _drawn(scheduler: Scheduler, random: np.random.Generator) -> Schedule:
    """Stages of any operators that are ready, in any groups, and replacements where they fit."""
    base, graph = scheduler.unsearched(), scheduler.graph
    opaque = scheduler.stage_builder.lowered.opaque
    left = set(range(len(graph.operators)))
    stages: list[ScheduledStage] = []
    while left:
        ready = sorted(op for op in left if not left.intersection(graph.predecessors[op]))
        merged = _replaced(scheduler, ready, left, random)
        if merged is not None and random.random() < 0.6:
            stages.append(_stage(graph, [merged], "merge"))
            left.difference_update(merged)
            continue
        first = ready[random.integers(len(ready))]
        if first in opaque:
            stages.append(_stage(graph, [[first]]))
            left.discard(first)
            continue
        ops = _members(graph, left, opaque, int(random.integers(1, 9)), random)
        stages.append(_stage(graph, _groups(graph, ops, random)))
        left.difference_update(ops)
    schedule = replace(base, stages=tuple(stages))
    for partitioning in ("groups", "strips"):
        some = random.random(len(stages)) < 0.4
        other = ScheduleLowering(scheduler.stage_builder).repartition(schedule, partitioning).stages
        mixed = [b if take else a for a, b, take in zip(schedule.stages, other, some, strict=True)]
        schedule = replace(schedule, stages=tuple(mixed))
    return schedule


def _stage(
    graph: OperatorGraph, groups: Sequence[Sequence[int]], strategy: str = "concurrent"
) -> ScheduledStage:
    return ScheduledStage(tuple(tuple(graph.names(group)) for group in groups), strategy)


def _members(
    graph: OperatorGraph,
    left: set[int],
    opaque: frozenset[int],
    size: int,
    random: np.random.Generator,
) -> list[int]:
    """Operators each of which reads only what is done, or comes before it among them."""
    members: list[int] = []
    while len(members) < size:
        waiting = left.difference(members)
        ready = [
            op
            for op in sorted(waiting - opaque)
            if not waiting.intersection(graph.predecessors[op])
        ]
        if not ready:
            break
        members.append(ready[random.integers(len(ready))])
    return members


def _groups(
    graph: OperatorGraph, ops: Sequence[int], random: np.random.Generator
) -> list[list[int]]:
    """The parts that do not depend on one another, some of them joined; in any order."""
    order = {op: i for i, op in enumerate(ops)}
    parts = [sorted(part, key=order.__getitem__) for part in components(graph.dag, ops)]
    if len(parts) > 1 and random.random() < 0.3:
        last = parts.pop()
        parts[0] = sorted([*parts[0], *last], key=order.__getitem__)
    return [parts[i] for i in random.permutation(len(parts))]


def _replaced(
    scheduler: Scheduler, ready: Sequence[int], left: set[int], random: np.random.Generator
) -> list[int] | None:
    """Operators that are ready and that one may replace; None where there are none."""
    found, graph = scheduler.stage_builder.replacements, scheduler.graph
    options = []
    for number in sorted({found.classes[op] for op in ready} - {-1}):
        alike = [op for op in ready if found.classes[op] == number]
        count = int(random.integers(1, len(alike) + 1))
        chosen = sorted(int(op) for op in random.permutation(alike)[:count])
        if found.find(chosen) is not None:
            options.append(chosen)
    for ops in found.sets:
        before = {p for op in ops for p in graph.predecessors[op]} - set(ops)
        if left.issuperset(ops) and not before & left:
            options.append(list(ops))
    return options[random.integers(len(options))] if options else None
