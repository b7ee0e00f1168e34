# SPDX-License-Identifier: Apache-2.0
"""Kernels out of a MetaSchedule database are among a CUDA device's."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax, s_tir

from support.cuda.fake_driver import TARGET, Emulated
from support.networks import assert_close, compile_plain, constant, conv, relax_module, run_vm
from tvm_ios.backend.cuda.rules.tuned import functions_to_tune
from tvm_ios.compiler.scheduler import Scheduler

ms = pytest.importorskip("tvm.s_tir.meta_schedule")  # needs psutil and cloudpickle

SHAPE = (1, 6, 9, 9)


def network(emit, x):
    """Two convolutions of one kind and a pool."""
    for seed in range(2):
        value = emit(relax.op.add(emit(conv(x, 6, seed=seed)), constant(1, 6, 1, 1)))
        x = emit(relax.op.nn.relu(value))
    return emit(relax.op.nn.max_pool2d(x, (3, 3)))


def tuned_database(target: tvm.target.Target):
    """A record for each function that has a convolution: a thread a channel."""
    database = ms.database.MemoryDatabase()
    for function in functions_to_tune(relax_module(network, SHAPE)).functions.values():
        workload = tvm.IRModule({"main": function.without_attr("global_symbol")})
        schedule = s_tir.Schedule(workload)
        blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
        if len(blocks) < 3:
            continue
        *inlined, product, biased, result = blocks
        for block in (*inlined, biased):
            schedule.compute_inline(block)
        *pixels, channel = schedule.get_loops(result)
        schedule.bind(schedule.fuse(*pixels), "blockIdx.x")
        schedule.bind(channel, "threadIdx.x")
        schedule.compute_at(product, channel)
        schedule.set_scope(product, 0, "local")
        stored = database.commit_workload(workload)
        database.commit_tuning_record(
            ms.database.TuningRecord(schedule.trace, stored, [1.0], target)
        )
    return database


def run_tuned(image: np.ndarray) -> tuple[list[str | None], np.ndarray]:
    """The kernels that the operators have, and what the network computes by them."""
    module = relax_module(network, SHAPE)
    with tuned_database(TARGET):
        scheduler = Scheduler.prepare(module, TARGET)
    schedule = scheduler.unsearched()
    variants = scheduler.compile({"plain": schedule})
    result = variants("plain", [tvm.runtime.tensor(image)])
    return [operator.kernel for operator in schedule.operators], result.numpy()


def test_each_function_is_to_be_tuned_once() -> None:
    names = [v.name_hint for v in functions_to_tune(relax_module(network, SHAPE)).functions]
    assert sorted(names) == ["conv2d_0", "max_pool2d_2"]


def test_a_tuned_kernel_comes_first(emulated: Emulated) -> None:
    image = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
    kernels, result = emulated.call(run_tuned, image)
    assert kernels[:2] == ["tuned", "tuned"]
    assert kernels[2] != "tuned"
    (expected,) = run_vm(compile_plain(relax_module(network, SHAPE)), [image])
    assert_close(result, expected, 1e-5)
