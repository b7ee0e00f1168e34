# SPDX-License-Identifier: Apache-2.0
"""A network compiled as was chosen, and run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from unittest import mock

import numpy as np
import tvm
from tvm import relax

from tvm_ios.compiler import artifact
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.lowering.export import export
from tvm_ios.schedule import Schedule
from tvm_ios_runtime import model as runtime
from tvm_ios_runtime.dispatch import Dispatcher
from tvm_ios_runtime.helpers import use_helpers
from tvm_ios_runtime.opening import open_machine
from tvm_ios_runtime.session import Sessions

from .choices import Choices
from .schedules import RandomPrices, schedule_of

_CPU = [(1, 0)]


def compile_network(
    mod: tvm.IRModule, choices: Choices, random: np.random.Generator, folder: Path
) -> tuple[runtime.Model, Schedule]:
    """The network as a function of arrays, and the schedule that it runs."""
    target = tvm.target.Target(choices.target)
    cost = RandomPrices(choices.options.seed)
    # Of the machine's memory everything is known: kernels do not depend on where this runs.
    with mock.patch("tvm_ios.backend.cpu.backend.machine_balance", return_value=choices.balance):
        scheduler = Scheduler.prepare(mod, target, cost_model=cost, options=choices.options)
    try:
        schedule = schedule_of(scheduler, choices, random)
        if choices.json:
            schedule = Schedule.from_dict(json.loads(json.dumps(schedule.to_dict())))
        scheduled = scheduler.emit(schedule)
    finally:
        scheduler.close()
    relax.analysis.well_formed(scheduled)
    executable = artifact.build(scheduled, schedule, scheduler.kind, target)
    if choices.library:
        path = folder / "model.so"
        export(executable, path)
        return artifact.load(path), schedule
    return in_memory(executable), schedule


def in_memory(executable: tvm.runtime.Executable) -> runtime.Model:
    """What :func:`artifact.build` made, run by a virtual machine; a library is called directly."""
    library = executable.jit()
    metadata = json.loads(open_machine(library, _CPU)[runtime.METADATA]())

    def sessions() -> Sessions:
        return Sessions(open_machine(library, _CPU), [metadata["function"]])

    dispatcher = Dispatcher.from_metadata(metadata)
    helped = use_helpers(library)
    return runtime.Model(sessions(), sessions, dispatcher, metadata, [None], helped)


@cache
def _unoptimised() -> tvm.target.Target:
    return tvm.target.Target({"kind": "llvm", "opt-level": 0, "num-cores": 1})


def run_unscheduled(mod: tvm.IRModule, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What TVM's own lowering computes, on one thread and unoptimised."""
    executable = tvm.compile(
        mod, _unoptimised(), relax_pipeline=relax.get_default_pipeline(_unoptimised())
    )
    machine = relax.VirtualMachine(executable, tvm.cpu())
    return _leaves(machine["main"](*(tvm.runtime.tensor(np.asarray(x, order="C")) for x in inputs)))


def _leaves(value: object) -> list[np.ndarray]:
    if isinstance(value, tvm.runtime.Tensor):
        return [value.numpy()]
    return [array for item in value for array in _leaves(item)]
