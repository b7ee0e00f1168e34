# SPDX-License-Identifier: Apache-2.0
"""The schedules that were compiled to be timed: the one chosen need not be compiled again."""

from __future__ import annotations

from collections.abc import Mapping

import tvm

from ..lowering.emitter import choose_variant
from ..schedule.schedule import Schedule


class CompiledSchedules:
    """The last module with a function for each of several schedules."""

    def __init__(self) -> None:
        self._module: tvm.IRModule | None = None
        self._schedules: dict[str, Schedule] = {}

    def keep(self, module: tvm.IRModule, schedules: Mapping[str, Schedule]) -> None:
        """Remember ``module``, which has a function of each schedule's name."""
        self._module, self._schedules = module, dict(schedules)

    def find(self, schedule: Schedule, variable: tvm.ir.GlobalVar) -> tvm.IRModule | None:
        """Return the module with ``schedule`` as its only function; None if it is not known.

        Parameters
        ----------
        schedule : Schedule
        variable : tvm.ir.GlobalVar
            What the function is called in the module that was scheduled.
        """
        alike = (n for n, known in self._schedules.items() if known.lowers_like(schedule))
        name = next(alike, None)
        if self._module is None or name is None:
            return None
        return choose_variant(self._module, self._schedules, name, variable)
