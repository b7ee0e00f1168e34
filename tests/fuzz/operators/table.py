# SPDX-License-Identifier: Apache-2.0
"""The tables of operators, by front end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from ..draw import Draw

Generator = Callable[[Draw], object]
"""Add one operator, or several that belong together, to a network; raise Refused to leave it."""


class Entry(NamedTuple):
    """How an operator is drawn, and how often, an ordinary one being drawn once."""

    generator: Generator
    weight: float


@dataclass
class Table:
    """The operators of one front end by their names, and motifs, which are made of them."""

    operators: dict[str, Entry] = field(default_factory=dict)
    motifs: dict[str, Entry] = field(default_factory=dict)

    def operator(self, name: str, weight: float = 1.0) -> Callable[[Generator], Generator]:
        """Enter a generator under the name of its operator."""
        return _entering(self.operators, name, weight)

    def motif(self, name: str, weight: float = 1.0) -> Callable[[Generator], Generator]:
        """Enter a generator of operators that stand together in networks."""
        return _entering(self.motifs, name, weight)

    @property
    def entries(self) -> list[Entry]:
        return [*self.operators.values(), *self.motifs.values()]


def _entering(
    entries: dict[str, Entry], name: str, weight: float
) -> Callable[[Generator], Generator]:
    def enter(generator: Generator) -> Generator:
        assert name not in entries, f"{name} is in the table once"
        entries[name] = Entry(generator, weight)
        return generator

    return enter


ONNX, RELAX = Table(), Table()
