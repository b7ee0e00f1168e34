# SPDX-License-Identifier: Apache-2.0
"""Small networks whose operators share stages, and their schedules for the self-test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import tvm
from tvm import relax

from ..compiler import artifact
from ..compiler.scheduler import Scheduler
from ..graph.dag import Candidate, components
from ..graph.operators import OperatorGraph
from ..lowering.export import export
from ..lowering.schedule_lowering import ScheduleLowering
from ..measure.timing.models import Variants
from ..measure.transport.locations import LocalRunner
from ..schedule.options import Options, Precision
from ..schedule.schedule import Schedule, ScheduledStage
from ..support.folders import TemporaryFolder
from .cases import Builder, Case, conv, dense
from .checks import KernelFault
from .reference import EXACT, compare, reference

op = relax.op


def _unequal(b: Builder, x: relax.Expr) -> relax.Var:
    """Emit branches that differ in window, channels, and length."""
    arms = [
        conv(b, x, 40),
        conv(b, conv(b, x, 7, 1), 9, 5),
        conv(b, b.emit(op.nn.max_pool2d(x, (3, 3), padding=(1, 1))), 24, 1),
    ]
    return b.emit(op.concat(arms, axis=1))


def _chains(b: Builder, x: relax.Expr) -> relax.Var:
    """Emit branches whose operators all have the rows and columns of their input."""
    arms = []
    for size in (3, 1):
        arm = conv(b, x, 24, size)
        arms.append(b.emit(op.nn.max_pool2d(arm, (3, 3), padding=(1, 1))))
    return b.emit(op.concat(arms, axis=1))


def _alike(b: Builder, x: relax.Expr) -> relax.Var:
    """Emit convolutions of one input with windows of different sizes, as in Inception."""
    x = b.emit(op.nn.relu(x))
    return b.emit(op.concat([conv(b, x, 24, 3), conv(b, x, 9, 1), conv(b, x, 17, 3)], axis=1))


def _sums(b: Builder, x: relax.Expr) -> relax.Var:
    """Emit a sum of two convolutions, and of a convolution and its input."""
    x = b.emit(op.nn.relu(x))
    channels = int(x.ty.shape[1])
    parts = [
        b.emit(op.nn.conv2d(x, b.weights(channels, channels, size, size), padding=size // 2))
        for size in (3, 1, 3)
    ]
    total = b.emit(op.nn.relu(b.emit(op.add(parts[0], parts[1]))))
    return b.emit(op.add(total, b.emit(op.nn.relu(b.emit(op.add(parts[2], x))))))


def _products(b: Builder, x: relax.Expr) -> relax.Var:
    """Emit the queries, keys and values of an attention, and the attention."""
    x = b.emit(op.tanh(x))
    query, key, value = (dense(b, x, 24) for _ in range(3))
    scores = b.emit(op.matmul(query, b.emit(op.permute_dims(key))))
    scores = b.emit(op.multiply(scores, relax.const(0.2, b.dtype)))
    return b.emit(op.matmul(b.emit(op.nn.softmax(scores)), value))


def _joined(b: Builder, x: relax.Expr) -> relax.Var:
    """Emit concatenations of channels that vectors divide, one a part of the other."""
    arms = [conv(b, x, 24, 3), b.emit(op.nn.max_pool2d(conv(b, x, 12, 1), (3, 3), padding=(1, 1)))]
    both = b.emit(op.concat(arms, axis=1))
    again = b.emit(op.concat([both, conv(b, arms[0], 20, 1), conv(b, both, 8, 3)], axis=1))
    return conv(b, again, 16, 3)


def _whole(b: Builder, x: relax.Expr) -> relax.Var:
    """Emit a network from image to scores: branches, a residual, pooling, a product, a softmax."""
    x = conv(b, x, 19, 3, strides=2)
    x = _unequal(b, x)
    residual = conv(b, conv(b, x, 16, 1), int(x.ty.shape[1]), 3)
    x = b.emit(op.nn.relu(b.emit(op.add(residual, x))))
    x = b.emit(op.squeeze(b.emit(op.nn.adaptive_avg_pool2d(x, 1)), [2, 3]))
    return b.emit(op.nn.softmax(dense(b, x, 11)))


_IMAGE = (1, 19, 15, 13)

UNEQUAL = Case("unequal branches", _unequal, (_IMAGE,))
CHAIN = Case("chains of equal planes", _chains, (_IMAGE,))
JOINED = Case("concatenations in place", _joined, (_IMAGE,))
ALIKE = Case("convolutions of one input", _alike, (_IMAGE,))
SUMS = Case("sums of convolutions", _sums, (_IMAGE,))
PRODUCTS = Case("products of one input", _products, ((9, 45),))
MERGED = (ALIKE, SUMS, PRODUCTS)
"""Networks whose operators can be replaced by larger ones, one for each rule."""

WHOLE = Case("small network", _whole, ((1, 3, 31, 29),))


def together(graph: OperatorGraph, candidates: Sequence[Candidate]) -> np.ndarray:
    """Return latencies of a device with unlimited parallelism.

    A stage takes as long as its longest group, plus a small constant. Merged stages are expensive.
    """
    longest = [max(map(len, components(graph.dag, c.ops))) for c in candidates]
    merging = [c.strategy == "merge" for c in candidates]
    return np.where(merging, 9.0, 0.1) + np.array(longest)


def merged(_graph: OperatorGraph, candidates: Sequence[Candidate]) -> np.ndarray:
    """Return latencies by which merging is best, followed by one operator per stage."""
    return np.array([0.1 if c.strategy == "merge" else float(len(c.ops)) ** 2 for c in candidates])


@dataclass(frozen=True)
class TestedSchedules:
    """One network with several schedules, compiled together.

    Attributes
    ----------
    case : Case
        The network.
    schedules : dict of str to Schedule
        The schedules by work partitioning, ``merged``, and ``sequential``, which always exists.
    """

    case: Case
    schedules: dict[str, Schedule]
    _variants: Variants

    @classmethod
    def compile(
        cls,
        case: Case,
        target: tvm.target.Target,
        device_id: int = 0,
        partitionings: Sequence[str] = (),
        merging: bool = False,
        precision: Precision = "fp32",
    ) -> TestedSchedules:
        """Make schedules of a network, and compile it under each.

        Parameters
        ----------
        case : Case
            The network.
        target : tvm.target.Target
            The target.
        device_id : int
            The GPU.
        partitionings : sequence of str
            Work partitionings. For each, a schedule is made that uses it in all stages that support
            it.
        merging : bool
            Whether to add the schedule ``merged``, which merges operators instead of running them
            side by side.
        precision : str
            The data type of factors.
        """
        scheduler = Scheduler.prepare(
            case.module(),
            target,
            cost_model=merged if merging else together,
            options=Options(precision=precision),
            runner=LocalRunner(device_id),
        )
        found = scheduler.search()
        lowering = ScheduleLowering(scheduler.stage_builder)
        schedules = {d: lowering.repartition(found, d) for d in partitionings}
        if merging:
            schedules["merged"] = found
        schedules["sequential"] = scheduler.unsearched()
        return cls(case, schedules, scheduler.compile(schedules))

    def check(self, name: str, runs: int, most: float = EXACT) -> str:
        """Check several runs under one of the schedules, because one must not affect the next.

        Parameters
        ----------
        name : str
            The schedule.
        runs : int
            Each has other inputs.
        most : float
            The largest relative error.

        Raises
        ------
        KernelFault
            If a result is wrong, or if the schedule has no stage of the kind to check.
        """
        for seed in range(runs):
            inputs = self.case.inputs(seed)
            said = compare(self.run(name, inputs), reference(self.case)(inputs), most)
        return f"{said}, {len(self.schedules[name].stages)} stages"

    def run(self, name: str, inputs: Sequence[np.ndarray]) -> np.ndarray:
        """Return the result of the network with one of the schedules.

        Raises
        ------
        KernelFault
            If the schedule has no stage of the kind to check.
        """
        if name != "sequential" and not any(
            map(partial(_shows, name), self.schedules[name].stages)
        ):
            raise KernelFault(f"No stage can be {name!r}.")
        return self._variants(name, [tvm.runtime.tensor(x) for x in inputs]).numpy()


def check_library(case: Case, target: tvm.target.Target, device_id: int, runs: int) -> str:
    """Check a network that was compiled to a library.

    The network, the target and the GPU are given as to :meth:`TestedSchedules.compile`, and the
    number of runs as to :meth:`TestedSchedules.check`.

    Raises
    ------
    KernelFault
        If a result is wrong.
    """
    scheduler = Scheduler.prepare(case.module(), target, runner=LocalRunner(device_id))
    schedule = scheduler.unsearched()
    executable = artifact.build(scheduler.emit(schedule), schedule, scheduler.kind, target)
    with TemporaryFolder() as directory:
        path = directory / "model.so"
        export(executable, path)
        model = artifact.load(path, device_id)
        for seed in range(runs):
            inputs = case.inputs(seed)
            said = compare(model(*inputs)[0], reference(case)(inputs))
    return said


def _shows(name: str, stage: ScheduledStage) -> bool:
    if name == "merged":
        return stage.strategy == "merge"
    return stage.partitioning == name and len(stage.groups) > 1
