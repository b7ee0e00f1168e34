# SPDX-License-Identifier: Apache-2.0
"""The steps from a Relax module to a shared library, in the order in which they are taken.

=================  ===============================================================================
:func:`resolve`    complete the target with what the machine has
:func:`prepare`    find the operators of a function, and kernels that compute them
:func:`choose`     search the cheapest schedule, and time it against the baselines
:func:`emit`       lower the function as the schedule says
:func:`build`      compile the module to an executable that describes itself
:func:`write`      link the executable as a shared library
=================  ===============================================================================

:func:`tvm_ios.compile` and ``tvm-ios compile`` take all of them; the pass takes those from
:func:`prepare` to :func:`emit`, and leaves the rest to TVM's pipeline.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import tvm
from tvm import relax

from ..backend.base import AnyKind
from ..lowering.export import export
from ..measure.given import StageCost
from ..measure.transport.locations import Runner
from ..schedule.options import Options
from ..schedule.schedule import Schedule
from ..support.errors import ModelError, OptionError
from ..support.messages import logged
from ..support.progress import working
from ..support.text import last_line
from . import artifact
from .compare import compare
from .rounding import round_within
from .scheduler import Scheduler


def resolve(
    kind: AnyKind,
    target: str | tvm.target.Target,
    threads: int | None,
    runner: Runner,
    *,
    runs: bool,
) -> tvm.target.Target:
    """Return the target, completed with the processor and the cores of a machine.

    Parameters
    ----------
    kind : TargetKind
        The kind of the target, which :func:`tvm_ios.backend.registry.kind_of` returns.
    target : str or tvm.target.Target
    threads : int or None
        Worker threads; None for all cores.
    runner : Runner
        Where stages are measured.
    runs : bool
        Whether code for the target is to run in this process.

    Raises
    ------
    TargetError, OptionError, DeviceError
    """
    resolved = kind.resolve(target, threads, runner)
    if runs and runner.machine is None:
        kind.check(resolved, runner.device_id)
    return resolved


def prepare(
    kind: AnyKind,
    mod: tvm.IRModule,
    target: str | tvm.target.Target,
    options: Options,
    runner: Runner | None = None,
    *,
    function: str = "main",
    cost_model: str | StageCost = "measure",
    sample: Sequence[np.ndarray] | None = None,
) -> Scheduler:
    """Find the operators of a function, and kernels that compute them.

    With the precision ``auto``, the network runs where it is timed to find out how much bfloat16
    it bears, on the inputs ``sample`` or on random ones. The other parameters, and errors, are
    those of :meth:`Scheduler.prepare`; TargetError is also raised if it would run here and cannot.
    """
    runner = runner or kind.runner(0)
    with working("preparing the network"), lowering():
        scheduler = Scheduler.prepare(mod, target, function, cost_model, options, runner, kind)
    if options.precision == "auto":
        if scheduler.decides:
            raise OptionError(
                "The network decides on branches or loops while it runs, so that the precision "
                "auto cannot try it; choose another precision."
            )
        if runner.machine is None:
            kind.check(scheduler.target, runner.device_id)
        round_within(scheduler, options.tolerance, sample)
    return scheduler


@contextmanager
def lowering() -> Iterator[None]:
    """Raise ModelError for what TVM cannot lower, such as a maximum of truth values."""
    try:
        with logged():
            yield
    except tvm.error.InternalError as error:
        raise ModelError(
            f"TVM cannot compile the model: {last_line(error)}; export it in another way, and "
            "report it."
        ) from error


def choose(scheduler: Scheduler, given: Schedule | None = None, *, search: bool = True) -> Schedule:
    """Return the schedule to apply to a function.

    What the search finds is timed as a whole model against the sequential and the greedy schedule.
    The sequential one is returned unless another one is proven to be faster. Where the user gives
    prices nothing is timed, as that would be another measure. A function that decides on branches
    and loops while it runs is not searched, but its parts are.

    Parameters
    ----------
    scheduler : Scheduler
    given : Schedule, optional
        What to apply instead of searching.
    search : bool
        Without the search each operator is a stage of its own, and nothing is measured.
    """
    if given is not None:
        return scheduler.applied(given)
    for name, part in scheduler.parts.items():
        scheduler.part_schedules[name] = choose(part, search=search)
    if not search or scheduler.decides:
        return scheduler.unsearched()
    if scheduler.given_cost is not None:
        return scheduler.search()
    return compare(scheduler).schedule


def emit(scheduler: Scheduler, schedule: Schedule) -> tvm.IRModule:
    """Return the module with the function lowered as ``schedule`` says."""
    with working("compiling the kernels"), lowering():
        return scheduler.emit(schedule)


def build(scheduler: Scheduler, schedule: Schedule) -> relax.VMExecutable:
    """Compile the module, with the function lowered as ``schedule`` says."""
    module = emit(scheduler, schedule)
    with lowering():
        return artifact.build(module, schedule, scheduler.kind, scheduler.target)


def write(executable: relax.VMExecutable, path: Path, runner: Runner | None = None) -> None:
    """Link an executable as a shared library, for the machine of ``runner``."""
    export(executable, path, None if runner is None else runner.compiler)
