# SPDX-License-Identifier: Apache-2.0
"""Operators that do nothing, such as reshapes, bundled with those that they come with for free.

Where such an operator runs makes no difference. If it were searched like others, there would be
many schedules of the same stages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..graph.dag import Candidate, Dag
from .problem import Problem, Replaceable


@dataclass(frozen=True)
class Bundles:
    """The operators of a network as the search sees them.

    Attributes
    ----------
    homes : sequence of int
        For each operator the one that stands for its bundle. Operators that stand for themselves
        are in a topological order, too.
    predecessors : sequence of sequence of int
        The producers that each operator reads.
    """

    homes: Sequence[int]
    predecessors: Sequence[Sequence[int]]

    @staticmethod
    def of(lowered: Problem, replacements: Replaceable) -> Bundles:
        """Bundle what does nothing with its only producer, or else with its only consumer.

        What may be replaced is bundled with nothing: a replacement is of certain operators. What
        waits for several producers brings these together, and is an operator like others.
        """
        before = lowered.graph.predecessors
        after = _successors(before)
        fixed = _replaceable(replacements)
        homes = list(range(len(before)))
        for op in homes.copy():
            if op in fixed or len(before[op]) > 1 or not _is_free(lowered, op):
                continue
            hosts = list(before[op])
            hosts += [c for c in after[op] if len(after[op]) == 1 and not _is_free(lowered, c)]
            known = (h for h in hosts if h not in fixed and lowered.implementations[h] is not None)
            homes[op] = next((homes[host] for host in known), op)
        return Bundles(homes, before)

    @cached_property
    def edges(self) -> list[tuple[int, int]]:
        """Distinct pairs (producer, consumer) of the operators that stand for bundles."""
        pairs = {
            (self.homes[u], self.homes[v]) for v, us in enumerate(self.predecessors) for u in us
        }
        return sorted((u, v) for u, v in pairs if u != v)

    @cached_property
    def _free(self) -> dict[int, list[int]]:
        """The other operators of each bundle that has any."""
        free: dict[int, list[int]] = {}
        for op, home in enumerate(self.homes):
            if op != home:
                free.setdefault(home, []).append(op)
        return free

    @cached_property
    def _successors(self) -> Mapping[int, list[int]]:
        return _successors(self.predecessors)

    def within(self, operators: Iterable[int]) -> list[int]:
        """Return those of some operators that stand for bundles, in a topological order."""
        return sorted({self.homes[op] for op in operators})

    def members(self, homes: Collection[int]) -> list[int]:
        """Return all operators of some bundles."""
        chosen = set(homes)
        return [op for op, home in enumerate(self.homes) if home in chosen]

    def dag(self, homes: Sequence[int]) -> Dag:
        """Return the graph of some bundles, each of which is its position."""
        position = {home: i for i, home in enumerate(homes)}
        pairs = [(position.get(u), position.get(v)) for u, v in self.edges]
        return Dag(len(homes), [(u, v) for u, v in pairs if u is not None and v is not None])

    def stage(self, homes: Sequence[int], strategy: str) -> Candidate:
        """Return a stage of bundles: what stands for them, and what connects that inside."""
        free = sorted(op for home in homes for op in self._free.get(home, ()))
        if not free:
            return Candidate(tuple(sorted(homes)), strategy)
        fed, read = set(homes), set(homes)
        for op in free:
            if fed.intersection(self.predecessors[op]):
                fed.add(op)
        for op in reversed(free):
            if read.intersection(self._successors[op]):
                read.add(op)
        return Candidate(tuple(sorted(fed & read)), strategy)

    def completed(self, stages: Sequence[Candidate]) -> list[Candidate]:
        """Return the stages, with a stage for each operator that is in none."""
        place = {op: i for i, stage in enumerate(stages) for op in stage.ops}
        behind: list[list[int]] = [[] for _ in range(len(stages) + 1)]
        for op, before in enumerate(self.predecessors):
            if op not in place:
                place[op] = max((place[p] for p in before), default=-1)
                behind[place[op] + 1].append(op)
        alone = [[Candidate((op,), "concurrent") for op in ops] for ops in behind]
        return [*alone[0], *(s for i, stage in enumerate(stages) for s in (stage, *alone[i + 1]))]


def _successors(predecessors: Sequence[Sequence[int]]) -> Mapping[int, list[int]]:
    after: dict[int, list[int]] = {op: [] for op in range(len(predecessors))}
    for op, before in enumerate(predecessors):
        for producer in before:
            after[producer].append(op)
    return after


def _is_free(lowered: Problem, op: int) -> bool:
    implementation = lowered.implementations[op]
    return implementation is not None and implementation.kernel.is_noop


def _replaceable(replacements: Replaceable) -> set[int]:
    """Return the operators that a replacement may be of."""
    sizes = Counter(replacements.classes)
    classed = {op for op, n in enumerate(replacements.classes) if n >= 0 and sizes[n] > 1}
    return classed.union(*replacements.sets)
