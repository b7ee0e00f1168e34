# SPDX-License-Identifier: Apache-2.0
"""Our entries: a model compiled as its user would, on the command line.

``sequential``, ``greedy`` and ``barriers`` are compiled from schedules that are given, without a
search; ``scheduled`` is what the user gets: the schedule that is found or, where that is no faster,
the sequential one. ``auto`` is the same with the precision ``auto``.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from peer.contender import AUTO, BARRIERS
from peer.gains import gains_of
from peer.process import ContenderError, run_tool

_BASELINES = ("sequential", "greedy", BARRIERS)
_LIMITS = ("max_group_size", "max_num_groups")


@dataclass(frozen=True)
class Search:
    """How ours are compiled: the workers, and the pruning limits r and s of the search."""

    threads: int
    max_group_size: int
    max_num_groups: int


@dataclass(frozen=True)
class Library:
    """A compiled model.

    Attributes
    ----------
    path : Path
    compile_s : float
        Seconds from the start of the command to its end.
    report : dict
        What it printed.
    """

    path: Path
    compile_s: float
    report: dict[str, Any]


class Compiler:
    """Compiles one model; files go to ``directory``."""

    def __init__(self, model: Path, directory: Path, search: Search) -> None:
        self._model, self._directory, self._search = model, directory, search

    def compile(self, name: str) -> Library:
        """Compile the entry ``name``.

        Raises
        ------
        ContenderError
            When it cannot be compiled.
        """
        library = self._directory / f"{name}.so"
        threads, how = str(self._search.threads), self._how(name)
        command = ["tvm_ios", "compile", str(self._model), "-o", str(library)]
        schedule = self._directory / f"{name}.schedule"
        command += ["--json", "--no-database", "--schedule-out", str(schedule)]
        begin = time.perf_counter()
        printed = run_tool([*command, "--threads", threads, *how], self._directory / f"{name}.log")
        seconds, report = time.perf_counter() - begin, json.loads(printed)
        gains = gains_of(json.loads(schedule.read_text()))
        return Library(library, seconds, {**report, "gains": gains})

    def _how(self, name: str) -> list[str]:
        """The arguments that say how the schedule is come by."""
        if name not in _BASELINES:
            limits = (
                f"{n}={getattr(self._search, n)}" for n in ("max_group_size", "max_num_groups")
            )
            precision = ["--precision", "auto"] if name == AUTO else []
            return [*precision, *(word for limit in limits for word in ("--pass-config", limit))]
        if isinstance(self._baselines, ContenderError):
            raise self._baselines
        return ["--schedule-in", str(self._baselines[name])]

    @cached_property
    def _baselines(self) -> dict[str, Path] | ContenderError:
        """The schedules that need no search, written together."""
        paths = {name: self._directory / f"{name}.json" for name in _BASELINES}
        search = (self._search.threads, self._search.max_num_groups)
        arguments = map(str, ("peer.baselines", self._model, *search, *paths.values()))
        try:
            run_tool(list(arguments), self._directory / "baselines.log")
        except ContenderError as error:
            return error
        return paths
