# SPDX-License-Identifier: Apache-2.0
"""Equal blocks of a network, of which only one is searched (IOPS, section 2.4).

Two blocks are equal if every stage of one takes as long as its counterpart in the other. This holds
if the same kernels are connected in the same way. A block is therefore described as a labelled
graph of its operators, of the values that they read and write, of the memory locations of those
values, and of the operators that may be merged. Equal blocks have isomorphic graphs.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm import relax

from ..graph.dag import Candidate
from ..graph.isomorphism import LabelledGraph, isomorphism
from .problem import Problem, Replaceable


@dataclass(frozen=True)
class Template:
    """The source of a block's schedule.

    Attributes
    ----------
    block : int
        The first block that equals this one, or this block itself.
    counterparts : dict of int to int
        The operator of this block for each operator of that block.
    """

    block: int
    counterparts: dict[int, int]

    def counterpart(self, stage: Candidate) -> Candidate:
        """Return the stage of this block that equals one of that block."""
        return Candidate(tuple(sorted(self.counterparts[op] for op in stage.ops)), stage.strategy)


def own_template(number: int, block: Sequence[int]) -> Template:
    """Return the template of a block that is searched itself."""
    return Template(number, {op: op for op in block})


def find_templates(
    lowered: Problem,
    replacements: Replaceable,
    returned: Collection[relax.Var],
    blocks: Sequence[Sequence[int]],
) -> list[Template]:
    """Find, for each block, the first block that equals it.

    Parameters
    ----------
    lowered : Problem
        The operator graph and its implementations.
    replacements : Replaceable
        The sets that the search may replace.
    returned : collection of relax.Var
        The values that the function returns.
    blocks : sequence of sequence of int
        The operators of each block, by index.

    Returns
    -------
    list of Template
        One for each block.
    """
    known: dict[str, list[tuple[int, LabelledGraph]]] = {}
    templates = []
    for number, block in enumerate(blocks):
        ops = sorted(block)
        graph = _Description(lowered, replacements, returned, ops).graph()
        alike = known.setdefault(graph.digest, [])
        template = own_template(number, block)
        for first, candidate in alike:
            image = isomorphism(candidate, graph)
            if image is not None:
                pairs = zip(sorted(blocks[first]), image, strict=False)  # operators come first
                template = Template(first, {op: ops[its] for op, its in pairs})
                break
        else:
            alike.append((number, graph))
        templates.append(template)
    return templates


@dataclass
class _Description:
    """A builder of the labelled graph of one block, in which the operators come first, by index."""

    lowered: Problem
    replacements: Replaceable
    returned: Collection[relax.Var]
    ops: Sequence[int]
    _labels: list[Hashable] = field(default_factory=list)
    _edges: list[tuple[int, int, Hashable]] = field(default_factory=list)
    _values: dict[relax.Var, int] = field(default_factory=dict)
    _classes: dict[int, int] = field(default_factory=dict)

    def graph(self) -> LabelledGraph:
        position = {op: i for i, op in enumerate(self.ops)}
        self._labels = [self._operator_label(op) for op in self.ops]
        for op, node in position.items():
            before = self.lowered.graph.predecessors[op]
            self._edges += [(position[p], node, "after") for p in before if p in position]
            self._add_values(op, node)
            self._add_merge_class(self.replacements.classes[op], node)
        for ops in self.replacements.within(self.ops):
            self._add_replacement(ops, position)
        return LabelledGraph(tuple(self._labels), tuple(self._edges))

    def _operator_label(self, op: int) -> Hashable:
        """Return what an operator computes, and the key of its kernel if it has one."""
        implementation = self.lowered.implementations[op]
        kernel = None if implementation is None else implementation.kernel.key
        return ("operator", self.lowered.graph.operators[op].signature, kernel)

    def _add_values(self, op: int, node: int) -> None:
        """Add the values that an operator and its kernel access; the kernel may skip copies."""
        operator = self.lowered.graph.operators[op]
        implementation = self.lowered.implementations[op]
        uses: list[tuple[str, Sequence[Any]]]
        uses = [("reads", operator.inputs), ("writes", operator.outputs)]
        if implementation is not None:
            uses.append(("kernel reads", implementation.inputs))
            uses.append(("kernel writes", implementation.outputs))
        for use, values in uses:
            for i, value in enumerate(values):
                if isinstance(value, relax.Var):  # not a weight, whose size is in the key
                    self._edges.append((node, self._value(value), (use, i)))

    def _value(self, value: relax.Var) -> int:
        if value not in self._values:
            node = self._values[value] = self._add("value", *self._describe(value))
            slot = self.lowered.slots.get(value)
            if slot is not None:
                self._edges.append((node, self._value(slot.target), ("lies in", slot.offset)))
        return self._values[value]

    def _describe(self, value: relax.Var) -> tuple[Hashable, ...]:
        """Return a value's type, its layout, and whether anything outside the block reads it."""
        readers = self.lowered.graph.readers.get(value, ())
        needed = value in self.returned or not set(readers).issubset(self.ops)
        return (str(value.ty), self.lowered.layouts.get(value), needed)

    def _add_merge_class(self, number: int, node: int) -> None:
        """Add a node for a merge class unless it has only one operator in this block."""
        if number < 0 or sum(self.replacements.classes[op] == number for op in self.ops) < 2:
            return
        if number not in self._classes:
            self._classes[number] = self._add("may be merged")
        self._edges.append((self._classes[number], node, "member"))

    def _add_replacement(self, ops: tuple[int, ...], position: Mapping[int, int]) -> None:
        node = self._add("may be replaced", self.replacements.sets[ops].name)
        self._edges += [(node, position[op], "member") for op in ops]

    def _add(self, *label: Hashable) -> int:
        self._labels.append(label)
        return len(self._labels) - 1
