# SPDX-License-Identifier: Apache-2.0
"""What of a network may be replaced, by a table of rules."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic

from ..implementation import G, Implementation
from ..kernel import K
from .rule import Reading, Rule

_LARGEST = 6
"""Operators of a class, at most: any of them may be replaced together, and each choice has weights
of its own and is measured."""


@dataclass(frozen=True)
class Replacement(Generic[K]):
    """A rule that matches operators of a network.

    Attributes
    ----------
    name : str
        The rule's name.
    target : callable
        Returns the implementation in place of operators, given in increasing order.
    """

    name: str
    target: Callable[[tuple[int, ...]], Implementation[K]]


@dataclass(frozen=True)
class Replacements(Generic[K]):
    """What of a network may be replaced.

    Attributes
    ----------
    classes : tuple of int
        Per operator a number; operators that share it can be replaced by one, any two or more of
        them. -1 for all others.
    sets : mapping of tuple of int to Replacement
        Further operators that can be replaced by one, in increasing order: all of a set, and an
        operator may read another. Sets of one are replaced by another kernel.
    """

    classes: tuple[int, ...]
    sets: Mapping[tuple[int, ...], Replacement[K]] = field(default_factory=dict)
    _of_class: Mapping[int, Replacement[K]] = field(default_factory=dict)

    @staticmethod
    def none(num_ops: int) -> Replacements[Any]:
        """Return the replacements of a network in which nothing may be replaced."""
        return Replacements((-1,) * num_ops)

    def find(self, ops: Sequence[int]) -> Replacement[K] | None:
        """Return what replaces exactly these operators; None where nothing does."""
        ops = tuple(sorted(ops))
        if ops in self.sets:
            return self.sets[ops]
        classes = {self.classes[op] for op in ops}
        return self._of_class.get(classes.pop()) if len(ops) > len(classes) == 1 else None

    def within(self, block: Sequence[int]) -> list[tuple[int, ...]]:
        """Return the sets whose operators are all in the block."""
        members = set(block)
        return [ops for ops in self.sets if members.issuperset(ops)]

    @property
    def together(self) -> list[int]:
        """Per operator a number that those share which a cut should not part; else -1."""
        ties = [ops for ops in self.sets if len(ops) > 1]
        for number in set(self.classes) - {-1}:
            ties.append(tuple(op for op, c in enumerate(self.classes) if c == number))
        first = list(range(len(self.classes)))
        for ops in ties:
            joined = {first[op] for op in ops}
            first = [min(joined) if number in joined else number for number in first]
        tied = {op for ops in ties for op in ops}
        return [number if op in tied else -1 for op, number in enumerate(first)]


def find_replacements(lowered: G, table: Sequence[Rule[G, K]]) -> Replacements[K]:
    """Match every rule of a table against a network; no two match the same operators."""
    numbers: dict[tuple[int, Hashable], int] = {}
    classes: list[int] = []
    sets: dict[tuple[int, ...], Replacement[K]] = {}
    found = [Replacement(rule.name, partial(rule.target, lowered)) for rule in table]
    for op, implementation in zip(lowered.graph.operators, lowered.implementations, strict=True):
        classes.append(-1)
        if implementation is None:
            continue
        for position, rule in enumerate(table):
            if isinstance(rule.source, Reading):
                sets.update((ops, found[position]) for ops in rule.source.sets(lowered, op))
                continue
            key = rule.source.key(lowered, op)
            if key is not None:
                classes[-1] = numbers.setdefault((position, key), len(numbers))
    of_class = {number: found[position] for (position, _), number in numbers.items()}
    return _in_small_classes(classes, of_class, sets)


def _in_small_classes(
    alike: Sequence[int],
    found: Mapping[int, Replacement[K]],
    sets: Mapping[tuple[int, ...], Replacement[K]],
) -> Replacements[K]:
    """Divide similar operators into classes of two or more, up to a limit."""
    classes = [-1] * len(alike)
    of_class: dict[int, Replacement[K]] = {}
    for number, replacement in found.items():
        members = [op for op, other in enumerate(alike) if other == number]
        parts = -(-len(members) // _LARGEST)
        for part in range(parts if len(members) > 1 else 0):
            for op in members[part * len(members) // parts : (part + 1) * len(members) // parts]:
                classes[op] = len(of_class)
            of_class[len(of_class)] = replacement
    return Replacements(tuple(classes), sets, of_class)
