# SPDX-License-Identifier: Apache-2.0
"""The pass, and the pipeline around it."""

from __future__ import annotations

import os
from contextlib import closing
from typing import Any

import tvm

from .backend.registry import kind_of
from .compiler import steps
from .measure.given import StageCost
from .measure.sites import Site
from .schedule.options import Options
from .schedule.schedule import Schedule
from .support.errors import TargetError


@tvm.transform.module_pass(opt_level=0, name="tvm_ios.InterOperatorSchedule")
class InterOperatorSchedule:
    """Schedule the operators of a Relax function into stages and lower each to one kernel.

    The input is a high-level module, as TVM's ONNX and PyTorch importers give it; the result is to
    go on through TVM's own pipeline. Scheduling never makes a model slower: the schedule found is
    timed as a whole against the sequential one, and the faster of the two is applied.

    Parameters
    ----------
    target : str or tvm.target.Target
        The target, of kind ``llvm`` or ``cuda``, that the module will be compiled for. It is taken
        as given: a bare ``llvm`` means the oldest CPU of the architecture, see
        :func:`tvm_ios.target.resolve`. A CPU's
        ``num-cores`` (by default all cores available) is the number of workers.
    function : str
        The function to schedule.
    cost_model : "measure" or callable
        ``measure`` times stages on this machine. A function ``(graph, candidates) ->
        seconds`` replaces it; nothing is measured then, and its best schedule is applied.
    schedule : Schedule, path or None
        A schedule to apply without searching.
    search : bool
        Without the search, and unless a schedule is given, each operator is a stage of its own and
        nothing is measured.
    site : Site, optional
        Where is measured: :class:`tvm_ios.Rpc` for devices, :class:`tvm_ios.Isolated` for another
        process of this machine; by default in this process.
    options
        Those of :class:`tvm_ios.options.Options`: the search's limits, its database, its seed.

    Attributes
    ----------
    schedule : Schedule or None
        After the pass has run: the schedule that was applied.

    Raises
    ------
    ModelError, ScheduleError, TargetError, OptionError, CostError, DatabaseError, DeviceError
        When the pass runs; for options out of range, when it is made.
    """

    def __init__(
        self,
        target: str | tvm.target.Target,
        *,
        function: str = "main",
        cost_model: str | StageCost = "measure",
        schedule: Schedule | str | os.PathLike[str] | None = None,
        search: bool = True,
        site: Site | None = None,
        **options: Any,
    ) -> None:
        self._target, self._function, self._cost_model = target, function, cost_model
        self._search, self._site = search, site
        if isinstance(schedule, (str, os.PathLike)):
            schedule = Schedule.load(schedule)
        self._given = schedule
        self._options = Options(**options).applying(self._given)
        self.schedule: Schedule | None = None

    def transform_module(
        self, mod: tvm.IRModule, _context: tvm.transform.PassContext
    ) -> tvm.IRModule:
        network = steps.prepare(
            mod,
            self._target,
            self._options,
            self._site,
            function=self._function,
            cost_model=self._cost_model,
        )
        with closing(network) as scheduler:
            self.schedule = steps.choose(scheduler, self._given, search=self._search)
            return steps.emit(scheduler, self.schedule)


def pipeline(target: str | tvm.target.Target | None = None, **options: Any) -> tvm.transform.Pass:
    """TVM's pipeline with the pass in front, for ``tvm.compile(..., relax_pipeline=...)``.

    Parameters
    ----------
    target : str or tvm.target.Target, optional
        By default the target that ``tvm.compile`` is given.
    options
        Those of :class:`InterOperatorSchedule`.
    """

    @tvm.transform.module_pass(opt_level=0, name="tvm_ios.pipeline")
    def run(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
        current = target if target is not None else tvm.target.Target.current(allow_none=True)
        if current is None:
            raise TargetError("The tvm_ios pipeline needs a target; give tvm.compile one.")
        current = tvm.target.Target(current)
        schedule: tvm.transform.Pass = InterOperatorSchedule(current, **options)
        return kind_of(current).pipeline(current)(schedule(mod))

    return run
