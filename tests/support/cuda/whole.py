# SPDX-License-Identifier: Apache-2.0
"""Whole networks in the process to which the fake driver is CUDA: compiled once, run in many ways.

:class:`support.cuda.fake_driver.Emulated` calls these functions. What they compile stays there, by
a name.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace

import numpy as np
import tvm

import tvm_ios
from support.cuda.fake_driver import TARGET
from support.cuda.model import Driver
from support.cuda.run import ordered
from support.networks import few_stages, flatten
from tvm_ios.backend.cuda.stage.stage import CudaStage
from tvm_ios.cli.main import main
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.graph.operators import Operator
from tvm_ios.lowering.schedule_lowering import ScheduleLowering
from tvm_ios.lowering.stages import Stage
from tvm_ios.measure.timing.models import Variants
from tvm_ios.schedule import Schedule, ScheduledStage


@dataclass(frozen=True)
class Whole:
    """A network that was compiled.

    Attributes
    ----------
    variants : Variants
    partitionings : dict of str to list of str
        By the names of the ways, of each stage.
    streams : dict of str to list of pairs
        Of each stage, the launches and the streams that they are on.
    """

    variants: Variants
    partitionings: dict[str, list[str]]
    streams: dict[str, list[tuple[int, int]]]


WAITS = "waits"

_KNOWN: dict[str, Whole] = {}


@contextmanager
def settings(values: Mapping[str, str]) -> Iterator[None]:
    """Variables that the fake driver reads, within a ``with``."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def repartitioned(scheduler: Scheduler, found: Schedule, partitioning: str) -> Schedule:
    """The schedule with all stages divided so that can be."""
    lowering = ScheduleLowering(scheduler.stage_builder)

    def one(scheduled: ScheduledStage) -> ScheduledStage:
        stage = lowering.stage_of(scheduled)
        if not isinstance(stage, Stage):
            return scheduled
        others = ("streams-1", "streams-2", "streams-widest")
        if partitioning not in (*scheduler.stage_builder.partitionings(stage, {}), *others):
            return scheduled
        return replace(scheduled, partitioning=partitioning)

    return replace(found, stages=tuple(map(one, found.stages)))


def compile_whole(
    name: str, network: tvm.IRModule | str, partitionings: Sequence[str], function: str = "main"
) -> dict[str, list[str]]:
    """Compile a network of few stages, each way with another division, and the sequential one.

    In these a stage waits for the one before. In one more, ``WAITS``, kernels wait for each other.

    Returns how the stages of each way are divided. What has been compiled is so.
    """
    if name not in _KNOWN:
        _KNOWN[name] = _compile(network, partitionings, function)
    return _KNOWN[name].partitionings


def _compile(network: tvm.IRModule | str, partitionings: Sequence[str], function: str) -> Whole:
    mod = tvm_ios.zoo.load(network) if isinstance(network, str) else network
    scheduler = Scheduler.prepare(mod, TARGET, function, cost_model=few_stages)
    found = scheduler.search()
    schedules = {
        d: replace(repartitioned(scheduler, found, d), synchronization="barrier")
        for d in partitionings
    }
    schedules["sequential"] = scheduler.unsearched()
    schedules[WAITS] = repartitioned(scheduler, found, "streams")
    return Whole(
        scheduler.compile(schedules),
        {variant: [stage.partitioning for stage in s.stages] for variant, s in schedules.items()},
        {variant: list(map(_streams, scheduler.lower(s))) for variant, s in schedules.items()},
    )


def _streams(stage: CudaStage | Operator) -> tuple[int, int]:
    return (len(stage.launches), stage.streams) if isinstance(stage, CudaStage) else (0, 1)


def run_whole(
    name: str, variant: str, arguments: Sequence[np.ndarray], order: str = "issued"
) -> list[np.ndarray]:
    """What a way computes; the arguments are at addresses of their own."""
    with ordered(order):
        results = _KNOWN[name].variants(variant, [tvm.runtime.tensor(array) for array in arguments])
        return flatten(results)


def journals(
    name: str, variant: str, arguments: Sequence[np.ndarray], times: int
) -> tuple[list[tuple[int, int]], list[list[str]]]:
    """Launches and streams of each of the way's stages, and the driver's journal of each run."""
    driver, runs = Driver(), []
    tensors = [tvm.runtime.tensor(array) for array in arguments]
    for _ in range(times):
        with driver.journal() as journal:
            _KNOWN[name].variants(variant, tensors)
        runs.append(journal)
    return _KNOWN[name].streams[variant], runs


def run_bench(arguments: Sequence[str], target: str) -> str:
    """What ``tvm-ios bench`` prints."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        assert main(["bench", *arguments, "--target", target, "--no-database"]) == 0
    return printed.getvalue()
