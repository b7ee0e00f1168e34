# SPDX-License-Identifier: Apache-2.0
"""From sets of operators to the kernel calls of a stage."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ..search import components
from .bands import in_bands, passing_bytes
from .divide import Division, divisions, plan
from .implement import Implementation, LoweredGraph
from .plan import PlannedCall
from .region import LoweredStage
from .replace import Replacements, find_replacements


@dataclass(frozen=True)
class StageForm:
    """A stage before its work is divided.

    Attributes
    ----------
    implementations : tuple of Implementation
        In an order that respects the edges between them.
    groups : tuple of int
        The group of each.
    after : tuple of tuple of int
        The implementations, by position, whose results each one reads.
    """

    implementations: tuple[Implementation, ...]
    groups: tuple[int, ...]
    after: tuple[tuple[int, ...], ...]

    @property
    def free(self) -> bool:
        """Whether there is nothing to do, as all results are in place already."""
        return not any(i.kernel.phases for i in self.implementations)

    @cached_property
    def key(self) -> Hashable:
        """Equal for stages of the same kernels, wiring and groups, wherever they stand."""
        reads: dict[int, int] = {}
        wiring = []
        for implementation in self.implementations:
            values = [v for v in implementation.inputs if hasattr(v, "ty")]
            wiring.append(tuple(reads.setdefault(hash(v), len(reads)) for v in values))
        kernels = tuple(i.kernel.key for i in self.implementations)
        return (kernels, tuple(wiring), self.groups, self.after)


@dataclass
class Assembler:
    """Builds stages of one lowered graph; what replaces operators is built once.

    Attributes
    ----------
    lowered : LoweredGraph
    workers : int
    """

    lowered: LoweredGraph
    workers: int
    _replacing: dict[tuple[int, ...], Implementation] = field(default_factory=dict)

    @cached_property
    def replacements(self) -> Replacements:
        """What of the graph may be replaced."""
        return find_replacements(self.lowered)

    def form(self, groups: Sequence[Sequence[int]], strategy: str) -> StageForm:
        """The stage of ``groups``; ``strategy`` is ``concurrent`` or ``merge``.

        A single operator that has no replacement runs as it is with either.
        """
        ops = sorted(op for group in groups for op in group)
        if strategy == "merge" and (len(ops) > 1 or self.replacements.rule(ops)):
            return StageForm((self._replacement(tuple(ops)),), (0,), ((),))
        before = self.lowered.graph.predecessors
        group_of = {op: g for g, group in enumerate(groups) for op in group}
        position = {op: i for i, op in enumerate(ops)}
        implementations = [self.lowered.implementations[op] for op in ops]
        assert all(i is not None for i in implementations), "a stage's operators have kernels"
        return StageForm(
            tuple(implementations),
            tuple(group_of[op] for op in ops),
            tuple(tuple(position[p] for p in before[op] if p in position) for op in ops),
        )

    def form_of(self, ops: Sequence[int], strategy: str) -> StageForm:
        """The stage of ``ops`` whose groups are their connected components."""
        return self.form(components(self.lowered.graph.dag, ops), strategy)

    def _replacement(self, ops: tuple[int, ...]) -> Implementation:
        """What the table of replacements has for the operators."""
        if ops not in self._replacing:
            rule = self.replacements.rule(ops)
            assert rule is not None, "these operators may be replaced"
            self._replacing[ops] = rule.target(self.lowered, ops)
        return self._replacing[ops]

    def originals(self, form: StageForm) -> tuple[Implementation, ...]:
        """The operators of a stage as they run where nothing replaces them, in order."""
        ops = [op for implementation in form.implementations for op in implementation.operators]
        return tuple(self.lowered.implementations[op] for op in ops)

    def apart(self, form: StageForm, costs: Mapping[Hashable, float]) -> LoweredStage:
        """The alternative to a stage: its operators one after another, each on all workers."""
        originals = self.originals(form)
        before = tuple(tuple(range(i)) for i in range(len(originals)))
        chain = StageForm(originals, (0,) * len(originals), before)
        return self.stage(chain, "tiles", costs)

    def divisions(self, form: StageForm, costs: Mapping[Hashable, float]) -> tuple[Division, ...]:
        """The divisions of the stage that are worth measuring."""
        return divisions(self._calls(form, costs), self.workers)

    def stage(
        self, form: StageForm, division: Division, costs: Mapping[Hashable, float]
    ) -> LoweredStage:
        """The stage with its work divided by ``costs``, seconds on one worker by kernel key."""
        calls, cache = self._calls(form, costs), self.lowered.preferences.core.l2_bytes
        return LoweredStage(form.implementations, plan(calls, self.workers, division, cache))

    def cacheable_bytes(self, form: StageForm) -> int:
        """What passes inside the stage and could stay in a core's cache; 0 if no division does."""
        calls = self._calls(form, {})
        return passing_bytes(calls) if in_bands(calls) else 0

    def _calls(self, form: StageForm, costs: Mapping[Hashable, float]) -> list[PlannedCall]:
        parts = zip(form.implementations, form.groups, form.after, strict=True)
        return [
            PlannedCall(i.kernel, costs.get(i.kernel.key, 1.0), group, after)
            for i, group, after in parts
        ]
