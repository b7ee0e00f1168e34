# SPDX-License-Identifier: Apache-2.0
"""The variables in scope at a position in a text."""

from __future__ import annotations

from .ast import Var


class Variables:
    """Variables by name. An inner scope hides names of outer ones until it ends."""

    def __init__(self) -> None:
        self._vars: dict[str, Var | None] = {}
        self._hidden: list[tuple[str, Var | None, bool]] = []

    def __contains__(self, name: str) -> bool:
        return name in self._vars

    def __getitem__(self, name: str) -> Var | None:
        """Return the variable of this name; None while it is being bound."""
        return self._vars[name]

    def bind(self, name: str, var: Var | None) -> None:
        """Bind a name to a variable until the scope ends."""
        self._hidden.append((name, self._vars.get(name), name in self._vars))
        self._vars[name] = var

    def mark(self) -> int:
        """Begin a scope; return its mark for `reset`."""
        return len(self._hidden)

    def reset(self, mark: int) -> None:
        """End a scope."""
        while len(self._hidden) > mark:
            name, var, there = self._hidden.pop()
            if there:
                self._vars[name] = var
            else:
                del self._vars[name]
