# SPDX-License-Identifier: Apache-2.0
"""The variables that a place in a text sees."""

from __future__ import annotations

from .ast import Var


class Variables:
    """Variables by name. Inner scopes hide names of outer ones and give them back when they end."""

    def __init__(self) -> None:
        self._vars: dict[str, Var | None] = {}
        self._hidden: list[tuple[str, Var | None, bool]] = []

    def __contains__(self, name: str) -> bool:
        return name in self._vars

    def __getitem__(self, name: str) -> Var | None:
        """The variable of this name; None while it is being bound."""
        return self._vars[name]

    def bind(self, name: str, var: Var | None) -> None:
        """Let a name stand for a variable until the scope ends."""
        self._hidden.append((name, self._vars.get(name), name in self._vars))
        self._vars[name] = var

    def mark(self) -> int:
        """The beginning of a scope, for `reset`."""
        return len(self._hidden)

    def reset(self, mark: int) -> None:
        """End a scope."""
        while len(self._hidden) > mark:
            name, var, there = self._hidden.pop()
            if there:
                self._vars[name] = var
            else:
                del self._vars[name]
