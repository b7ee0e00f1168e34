# SPDX-License-Identifier: Apache-2.0
"""The scheduling pass, and TVM's pipeline with the pass in front."""

from __future__ import annotations

import os
from contextlib import closing
from typing import Any

import tvm

from .backend.registry import kind_of
from .compiler import steps
from .frontend.relax_modules import from_relax, has_open_dimensions
from .measure.given import StageCost
from .measure.transport.locations import LocalRunner, Runner
from .schedule.options import Options
from .schedule.schedule import Schedule
from .schedule.versions import modernized_options
from .sizes.size import OpenSizes
from .support.errors import TargetError


@tvm.transform.module_pass(opt_level=0, name="tvm_ios.InterOperatorSchedule")
class InterOperatorSchedule:
    """A pass that schedules the operators of a Relax function into stages, each one kernel.

    The input is a high-level module, as TVM's ONNX and PyTorch importers return it. Run TVM's own
    pipeline on the result. The pass times the schedule that it found against the sequential and the
    greedy one, as whole models. It applies the sequential one unless another one is proven to be
    faster. Several threads may run it at once, and take turns where functions are built. A function
    for a CPU whose dimensions are symbolic variables takes any sizes of them; it is not searched,
    and every operator gets a stage of its own.

    Parameters
    ----------
    target : str or tvm.target.Target
        The target that the module will be compiled for, of kind ``llvm`` or ``cuda``. The pass uses
        it as given: a bare ``llvm`` means the oldest CPU of the architecture, see
        :func:`tvm_ios.target.resolve`. The number of workers is a CPU's ``num-cores``, by default
        all available cores.
    function : str
        The name of the function to schedule.
    cost_model : "measure" or callable
        ``measure`` times stages on this machine. A function ``(graph, candidates) -> seconds``
        replaces the measurements. Nothing is then timed, and the best schedule by this function is
        applied.
    schedule : Schedule, path or None
        A schedule to apply without searching.
    search : bool
        If False and no schedule is given, nothing is measured and every operator gets a stage of
        its own.
    runner : Runner, optional
        The runner that measures: :class:`tvm_ios.RPCRunner` for remote devices,
        :class:`tvm_ios.ProcessRunner` for a child process. By default stages run in this process.
    **options
        Fields of :class:`tvm_ios.options.Options`: the limits of the search, its database, its
        seed.

    Attributes
    ----------
    schedule : Schedule or None
        The schedule that was applied, after the pass has run.

    Raises
    ------
    ModelError, ScheduleError, TargetError, OptionError, CostError, DatabaseError, DeviceError
        When the pass runs. The constructor raises OptionError for options out of range.
    """

    def __init__(
        self,
        target: str | tvm.target.Target,
        *,
        function: str = "main",
        cost_model: str | StageCost = "measure",
        schedule: Schedule | str | os.PathLike[str] | None = None,
        search: bool = True,
        runner: Runner | None = None,
        **options: Any,
    ) -> None:
        self._target, self._function, self._cost_model = target, function, cost_model
        self._search = search
        if isinstance(schedule, (str, os.PathLike)):
            schedule = Schedule.load(schedule)
        self._given = schedule
        if runner is None and not (search and schedule is None):
            runner = LocalRunner()
        options = modernized_options(options)
        self._runner = options.pop("runner", runner)
        self._options = Options(**options).applying(self._given)
        self.schedule: Schedule | None = None

    def transform_module(
        self, mod: tvm.IRModule, _context: tvm.transform.PassContext
    ) -> tvm.IRModule:
        kind, opened = kind_of(self._target), OpenSizes()
        if kind.device == "cpu" and has_open_dimensions(mod, self._function):
            mod = from_relax(mod, opened=opened, function=self._function)
        network = steps.prepare(
            kind,
            mod,
            self._target,
            self._options,
            self._runner,
            function=self._function,
            cost_model=self._cost_model,
        )
        with closing(network) as scheduler:
            searches = self._search and not opened.variables
            self.schedule = steps.choose(scheduler, self._given, search=searches)
            return steps.emit(scheduler, self.schedule)


def pipeline(target: str | tvm.target.Target | None = None, **options: Any) -> tvm.transform.Pass:
    """Return TVM's pipeline with the pass in front, for ``tvm.compile(..., relax_pipeline=...)``.

    Parameters
    ----------
    target : str or tvm.target.Target, optional
        By default the target of ``tvm.compile``.
    **options
        Keyword arguments of :class:`InterOperatorSchedule`.
    """

    @tvm.transform.module_pass(opt_level=0, name="tvm_ios.pipeline")
    def run(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
        current = target if target is not None else tvm.target.Target.current(allow_none=True)
        if current is None:
            raise TargetError("The tvm_ios pipeline needs a target; pass one to tvm.compile.")
        current = tvm.target.Target(current)
        schedule: tvm.transform.Pass = InterOperatorSchedule(current, **options)
        return kind_of(current).pipeline(current)(schedule(mod))

    return run
