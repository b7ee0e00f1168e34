# SPDX-License-Identifier: Apache-2.0
"""One library for several shapes of a network, each with its own schedule.

The functions share the weights whose kernels read them in the same form. The networks say which
other shapes can be served. The library is compiled to try that, then again with what was found out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import tvm
from tvm import relax

from ..backend.base import AnyKind
from ..measure.transport.locations import Runner
from ..relax_ir.expressions import static_shape
from ..schedule.schedule import Schedule
from ..support.errors import ModelError, OptionError, TargetError
from ..support.folders import TemporaryFolder
from ..support.progress import working
from . import artifact, steps
from .artifact import Requests, Serving, leaves
from .dependence.servable import Servable, find_servable
from .dispatcher import with_dispatcher
from .open_batch import has_batch, is_open
from .probe import probe
from .scheduler import Scheduler

Networks = Sequence[tuple[Scheduler, Schedule]]
"""A network in several shapes, with the schedule of each."""


def check_kind(kind: AnyKind) -> None:
    """Raise OptionError for a kind of target whose libraries have one shape."""
    if kind.device != "cpu":
        raise OptionError(
            "A library of several shapes is for CPUs; compile a library for each shape for a GPU."
        )


def write(
    networks: Networks,
    path: Path,
    runner: Runner,
    error: ModelError | None = None,
    requests: Requests | None = None,
) -> Serving:
    """Compile a network in several shapes to one shared library.

    Parameters
    ----------
    networks : sequence of (Scheduler, Schedule)
    path : Path
    runner : Runner
        Where is measured; where that is this machine, the library runs to find out which other
        shapes it can serve, and how long a call takes.
    error : ModelError, optional
        What is raised unless all batches are served.
    requests : Requests, optional
        What the library tells those who serve it.

    Returns
    -------
    Serving
        What was found out.
    """
    scheduler, first = networks[0]
    name = first.function
    schedules = {f"{name}_{number}": schedule for number, (_, schedule) in enumerate(networks)}
    emitted = _emit(networks, schedules)
    _check_alike([emitted[function] for function in schedules])
    module = with_dispatcher(emitted, name, list(schedules))
    serving = Serving(requests=requests)
    general = networks[-1][0]
    if len(networks) == 1 or is_open(general):
        serving = replace(serving, splits=has_batch(general))
        _build(module, schedules, scheduler, serving, path, runner)
        return serving
    if runner.machine is None and _runs_here(scheduler):
        with TemporaryFolder() as folder:
            draft = folder / path.name
            _build(module, schedules, scheduler, serving, draft, runner)
            with working("comparing shapes"):
                found = probe(draft, scheduler, _servable(networks))
            serving = replace(found, requests=requests)
    if error is not None and not serving.splits:
        raise error  # rows depend on each other: it is no batch
    _build(module, schedules, scheduler, serving, path, runner)
    return serving


def _servable(networks: Networks) -> Servable:
    return find_servable([(s.prepared, schedule.function) for s, schedule in networks])


def _emit(networks: Networks, schedules: dict[str, Schedule]) -> tvm.IRModule:
    """Return a module with a function for each shape."""
    parts = []
    for (scheduler, _), (name, schedule) in zip(networks, schedules.items(), strict=True):
        scheduler.check(schedule)
        parts.append(scheduler.network({name: schedule}))
    with working("compiling the kernels"), steps.lowering():
        return networks[0][0].backend.emit(parts)


def _check_alike(functions: Sequence[relax.Function]) -> None:
    """Raise ModelError unless functions differ in the sizes of tensors and in nothing else."""
    for function in functions:
        for parameter in function.params:
            if not isinstance(parameter.ty, relax.TensorType):
                raise ModelError(
                    f"Input {parameter.name!r} is a tuple; only tensors can have several shapes."
                )
    forms = {
        tuple((ty.ndim, str(ty.dtype)) for ty in (*(p.ty for p in f.params), *leaves(f.ret_ty)))
        for f in functions
    }
    if len(forms) > 1:
        raise ModelError(
            "Inputs and outputs must have the same number of dimensions in all shapes; compile a "
            "library for each shape."
        )
    shapes = [tuple(static_shape(p, "an input") for p in f.params) for f in functions]
    if len(set(shapes)) < len(shapes):
        raise OptionError("Two of the shapes are the same; name each once.")


def _build(
    module: tvm.IRModule,
    schedules: dict[str, Schedule],
    scheduler: Scheduler,
    serving: Serving,
    path: Path,
    runner: Runner,
) -> None:
    with steps.lowering():
        executable = artifact.build_signatures(
            module, schedules, scheduler.kind, scheduler.target, serving
        )
    steps.write(executable, path, runner)


def _runs_here(scheduler: Scheduler) -> bool:
    try:
        scheduler.kind.check(scheduler.target, 0)
    except TargetError:
        return False
    return True
