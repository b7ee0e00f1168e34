# SPDX-License-Identifier: Apache-2.0
"""Operators that share a stage may have kernels that take less of the device."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import relax

from support.cuda.fake_driver import TARGET, Emulated
from support.networks import (
    UNOPTIMISED,
    assert_close,
    compile_plain,
    conv,
    few_stages,
    flatten,
    random_arguments,
    relax_module,
    run_vm,
)
from tvm_ios.backend.cuda.kernels.kernel import CudaKernel
from tvm_ios.backend.cuda.measure.tune import fastest_and_lean
from tvm_ios.backend.cuda.stage.build import CudaStageBuilder
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.schedule import Schedule

op = relax.op
PARTITIONINGS = ("streams-lean", "fused-lean")


def branches(emit, x):
    return relax.Tuple([emit(op.nn.relu(emit(conv(x, 24, k, seed=k)))) for k in (1, 3)])


NETWORK = relax_module(branches, (1, 16, 10, 10))


class Blocks(CudaKernel):
    """A kernel of which only the number of blocks is known."""

    @property
    def num_tiles(self) -> int:
        return self.key


def kernel(blocks: int) -> CudaKernel:
    return Blocks(f"k{blocks}", blocks, (), (), None, variant=f"k{blocks}")


@pytest.mark.parametrize(
    ("times", "fastest", "lean"),
    [
        ({200: 1.0, 100: 1.2, 50: 1.5}, "k200", "k50"),
        ({200: 1.0, 100: 1.9}, "k200", None),  # it takes nearly as much, longer
        ({200: 1.0, 10: 3.5}, "k200", None),  # its stage would wait for it
        ({50: 1.0, 200: 1.1}, "k50", None),
        ({400: 1.0, 200: 1.1}, "k400", None),  # both have blocks for all
        ({200: np.inf, 100: 1.0, 50: np.inf}, "k100", None),
        ({200: np.inf}, "k200", None),
    ],
)
def test_what_a_kernel_takes(times: dict[int, float], fastest: str, lean: str | None) -> None:
    """By the device's 100 multiprocessors."""
    known = [(kernel(blocks), seconds) for blocks, seconds in times.items()]
    assert fastest_and_lean(known, 100) == (fastest, lean)


def with_lean(scheduler: Scheduler) -> CudaStageBuilder:
    """Give each operator its first kernel, and its last one as the lean one."""
    names = [o.name for o in scheduler.graph.operators]
    candidates = scheduler.stage_builder.network.candidates
    first, last = (
        {n: found[i].kernel.variant for n, found in zip(names, candidates, strict=True)}
        for i in (0, -1)
    )
    builder = scheduler.stage_builder.chosen(first, last)
    assert [builder.variant(i) for i in range(len(names))] == list(first.values())
    assert [builder.lean_variant(i) for i in range(len(names))] == list(last.values())
    assert builder.chosen(first, last) is builder
    assert builder.chosen(first, {}).lean_variant(0) is None
    return builder


def test_stages_try_lean_kernels() -> None:
    scheduler = Scheduler.prepare(NETWORK, TARGET, cost_model=few_stages)
    plain, builder = scheduler.stage_builder, with_lean(scheduler)
    shared, single = builder.stage([[0], [1]], "concurrent"), builder.stage([[0, 1]], "concurrent")
    for workers, offered in ((1, set(PARTITIONINGS)), (10**6, set())):
        builder.workers = plain.workers = workers
        assert offered == {p for p in builder.partitionings(shared, {}) if p.endswith("lean")}
        assert not any(p.endswith("lean") for p in builder.partitionings(single, {}))
        other = plain.stage([[0], [1]], "concurrent")
        assert not any(p.endswith("lean") for p in plain.partitionings(other, {}))
    for partitioning, lean in (("streams", False), ("streams-lean", True)):
        launches = builder.partition(shared, partitioning, {}).launches
        wanted = {i.kernel.lean.key if lean else i.kernel.key for i in shared.implementations}
        assert {launch.kernel.key for launch in launches} == wanted
    fused = [
        builder.partition(shared, p, {}).launches[0].kernel.key for p in ("fused", "fused-lean")
    ]
    assert fused[0] != fused[1]


def test_stages_are_told_apart_by_their_lean_kernels() -> None:
    """Samples of other lean kernels are not theirs; a single operator does not use them."""
    scheduler = Scheduler.prepare(NETWORK, TARGET, cost_model=few_stages)
    plain, builder = scheduler.stage_builder, with_lean(scheduler)
    keys = [b.stage([[0], [1]], "concurrent").key for b in (plain, builder)]
    assert keys[0] != keys[1]
    assert plain.stage([[0]], "concurrent").key == builder.stage([[0]], "concurrent").key


def run_lean(arguments: list[np.ndarray]) -> dict[str, tuple[Schedule, list[np.ndarray]]]:
    """What the network computes with lean kernels, and schedules that were written and read."""
    scheduler = Scheduler.prepare(NETWORK, TARGET, cost_model=few_stages)
    scheduler.stage_builder = with_lean(scheduler)
    found = scheduler.search()
    results = {}
    for partitioning in PARTITIONINGS:
        stages = tuple(replace(s, partitioning=partitioning) for s in found.stages)
        schedule = Schedule.from_dict(json.loads(replace(found, stages=stages).to_json()))
        fresh = Scheduler.prepare(NETWORK, TARGET, cost_model=few_stages)
        variants = fresh.compile({"lean": schedule})
        made = variants("lean", [tvm.runtime.tensor(argument) for argument in arguments])
        ran = [i.kernel.variant for s in fresh.lower(schedule) for i in s.implementations]
        assert ran == [o.lean for o in schedule.operators]
        results[partitioning] = schedule, flatten(made)
    return results


def test_results_stay_the_same(emulated: Emulated) -> None:
    arguments = random_arguments(NETWORK)
    expected = run_vm(compile_plain(NETWORK, UNOPTIMISED), arguments)
    for schedule, results in emulated.call(run_lean, arguments).values():
        assert len(schedule.stages) == 1
        assert all(o.lean is not None for o in schedule.operators)
        for result, wanted in zip(results, expected, strict=True):
            assert_close(result, wanted, 1e-5)
