# SPDX-License-Identifier: Apache-2.0
"""What a rule of replacement is: a source pattern and a target (IOPS, section 2.3)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic

from ...graph.operators import Operator
from ..implementation import G, Implementation
from ..kernel import K


@dataclass(frozen=True)
class Alike(Generic[G]):
    """Matches any operators, two or more, that have the same key; none of them reads another.

    Attributes
    ----------
    key : callable
        ``key(lowered, op)`` of an operator that has a kernel: what those that may be replaced
        together have in common, None for what never is.
    """

    key: Callable[[G, Operator], Hashable | None]


@dataclass(frozen=True)
class Reading(Generic[G]):
    """Matches an operator, alone or with some that only it reads, or only they.

    Attributes
    ----------
    sets : callable
        ``sets(lowered, op)`` for an operator that has a kernel: the sets that may be replaced and
        of which ``op`` is the last, each in increasing order.
    """

    sets: Callable[[G, Operator], Iterable[tuple[int, ...]]]


Target = Callable[[G, tuple[int, ...]], Implementation[K]]
"""The implementation in place of the operators, given in increasing order: its kernel, and the
constants that it needs, computed from theirs."""


@dataclass(frozen=True)
class Rule(Generic[G, K]):
    """Operators that one larger operator may be computed in place of.

    A source must match nothing that the target does not compute exactly, but for rounding and for
    numbers that are not finite: a weight of zero is multiplied like any other.

    Attributes
    ----------
    name : str
    source : Alike or Reading
    target : callable
    """

    name: str
    source: Alike[G] | Reading[G]
    target: Target[G, K]
