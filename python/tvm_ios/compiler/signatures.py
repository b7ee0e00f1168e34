# SPDX-License-Identifier: Apache-2.0
"""One library for several shapes of a network, each with its own schedule.

The functions share the weights whose kernels read them in the same form. The library is first
compiled to find out how other shapes can be served, then again with what was found out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tvm

from ..backend.registry import kind_of
from ..measure.runners import Runner
from ..schedule.schedule import Schedule
from ..support.errors import OptionError, TargetError
from ..support.folders import TemporaryFolder
from ..support.progress import working
from . import artifact, steps
from .artifact import Serving
from .dispatcher import with_dispatcher
from .probe import probe
from .scheduler import Scheduler

Networks = Sequence[tuple[Scheduler, Schedule]]
"""A network in several shapes, with the schedule of each."""


def check_target(target: tvm.target.Target) -> None:
    """Raise OptionError for a target whose libraries have one shape."""
    if kind_of(target).device != "cpu":
        raise OptionError(
            "A library of several shapes is for CPUs; compile a library for each shape for a GPU."
        )


def write(networks: Networks, path: Path, runner: Runner) -> Serving:
    """Compile a network in several shapes to one shared library.

    Parameters
    ----------
    networks : sequence of (Scheduler, Schedule)
    path : Path
    runner : Runner
        Where is measured; where that is this machine, the library runs to find out which other
        shapes it can serve, and how long a call takes.

    Returns
    -------
    Serving
        What was found out.
    """
    scheduler, first = networks[0]
    target, name = scheduler.target, first.function
    schedules = {f"{name}_{number}": schedule for number, (_, schedule) in enumerate(networks)}
    module = with_dispatcher(_emit(networks, schedules), name, list(schedules))
    serving = Serving()
    if runner.machine is None and _runs_here(target):
        with TemporaryFolder() as folder:
            draft = folder / path.name
            _build(module, schedules, target, serving, draft, runner)
            with working("comparing shapes"):
                serving = probe(draft, scheduler)
    _build(module, schedules, target, serving, path, runner)
    return serving


def _emit(networks: Networks, schedules: dict[str, Schedule]) -> tvm.IRModule:
    """Return a module with a function for each shape."""
    parts = []
    for (scheduler, _), (name, schedule) in zip(networks, schedules.items(), strict=True):
        scheduler.check(schedule)
        parts.append(scheduler.network({name: schedule}))
    with working("compiling the kernels"), steps.lowering():
        return networks[0][0].backend.emit(parts)


def _build(
    module: tvm.IRModule,
    schedules: dict[str, Schedule],
    target: tvm.target.Target,
    serving: Serving,
    path: Path,
    runner: Runner,
) -> None:
    with steps.lowering():
        executable = artifact.build_signatures(module, schedules, target, serving)
    steps.write(executable, path, runner)


def _runs_here(target: tvm.target.Target) -> bool:
    try:
        kind_of(target).check(target, 0)
    except TargetError:
        return False
    return True
