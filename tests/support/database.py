# SPDX-License-Identifier: Apache-2.0
"""What the tests of the database share, also with the processes that they start."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from multiprocessing.process import BaseProcess as Process
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

import tvm
from tvm import relax

from support.networks import NATIVE, conv, relax_module
from support.paths import TESTS, with_path
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.database import DeviceIdentity, MeasurementDatabase
from tvm_ios.database.digest import digest
from tvm_ios.measure.cache import MeasurementCache, stage_workload
from tvm_ios.options import Options

HERE = DeviceIdentity.here(NATIVE)
ELSEWHERE = DeviceIdentity("another CPU", "llvm", 2, HERE.tvm_ios, HERE.tvm)
BEFORE = DeviceIdentity(HERE.cpu, HERE.target, HERE.threads, "0.0.1", HERE.tvm)


def key(name: object) -> str:
    return digest(str(name))


def branches() -> tvm.IRModule:
    """Three branches, and an operator that TVM lowers."""

    def body(emit: Callable[[relax.Expr], relax.Var], x: relax.Expr) -> relax.Expr:
        outputs = [emit(relax.op.nn.relu(emit(conv(x, 24, k, seed=k)))) for k in (1, 3, 5)]
        joined = emit(relax.op.concat(outputs, axis=1))
        return relax.op.flip(joined, axis=1)

    return relax_module(body, (1, 8, 13, 11))


def scheduler(
    database: str | Path | None, target: tvm.target.Target = NATIVE, **options: object
) -> Scheduler:
    return Scheduler.prepare(branches(), target, options=Options(database=database, **options))


def searched(made: Scheduler) -> Scheduler:
    """The same, with everything measured that a comparison needs."""
    made.search()
    made.greedy()
    made.sequential()
    return made


def digests() -> list[str]:
    """Of the network's operators as stages, and of all of them together."""
    made = scheduler(None, winograd=False)
    count = len(made.graph.operators)
    everything = [(i,) for i in range(count)] + [tuple(range(count))]
    forms = [made.stage_builder.stage_of(ops, "concurrent") for ops in everything]
    return [MeasurementCache().digest(stage_workload(form)) for form in forms]


def add_many(path: Path, name: str, count: int, written: Synchronized) -> None:
    """Add rows, half of them under keys that others add to, too; count them."""
    with closing(MeasurementDatabase(path)) as database:
        for i in range(count):
            shared = i % 2 == 0
            database.add(HERE, key(i if shared else f"{name} {i}"), name, {"tiles": [1.0 + i]})
            written.value += 1


def dies_after(additions: int) -> None:
    """Kill this process as soon as it has added so much."""
    add, remaining = MeasurementDatabase.add, iter(range(additions - 1, -1, -1))

    def counted(self: MeasurementDatabase, *arguments: object, **settings: object) -> None:
        add(self, *arguments, **settings)
        if next(remaining) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    MeasurementDatabase.add = counted


def fork(work: Callable[..., None], *arguments: object) -> tuple[Process, Synchronized]:
    """A process that does ``work``, and the counter that it is given."""
    forking = multiprocessing.get_context("fork")
    counter = forking.Value("i", 0)
    process = forking.Process(target=work, args=(*arguments, counter), daemon=True)
    process.start()
    return process, counter


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something is so that a process brings about."""
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def start(code: str, **environment: str) -> subprocess.Popen[str]:
    """A process that runs ``code`` with all names of this module."""
    return subprocess.Popen(
        [sys.executable, "-c", f"from support.database import *\n{code}"],
        stdout=subprocess.PIPE,
        text=True,
        env={**with_path(TESTS), **environment},
    )
