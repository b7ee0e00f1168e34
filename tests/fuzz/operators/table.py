# SPDX-License-Identifier: Apache-2.0
"""The tables of operators, by front end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ..draw import Draw

Generator = Callable[[Draw], object]
"""Add one operator, or several that belong together, to a network; raise Refused to leave it."""


class Entry(NamedTuple):
    """How an operator is drawn, and how often, an ordinary one being drawn once."""

    generator: Generator
    weight: float


@dataclass(frozen=True)
class Table:
    """The operators of one front end, by their names; motifs are named in lower case."""

    entries: dict[str, Entry]

    def operator(self, name: str, weight: float = 1.0) -> Callable[[Generator], Generator]:
        """Enter a generator under the operator's name."""

        def enter(generator: Generator) -> Generator:
            assert name not in self.entries, f"{name} is in the table once"
            self.entries[name] = Entry(generator, weight)
            return generator

        return enter


ONNX, RELAX = Table({}), Table({})
