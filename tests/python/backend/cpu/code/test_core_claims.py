# SPDX-License-Identifier: Apache-2.0
"""Claims of cores by the tasks of a launch: no two start on the same core if there are enough."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import tvm
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from tvm_ios.backend.cpu.code.core_claims import CoreClaims, claims_source
from tvm_ios.backend.cpu.code.functions import build_functions
from tvm_ios.target import resolve

CORES = sorted(os.sched_getaffinity(0))


def launch(cores: np.ndarray) -> None:
    """Write on which core each of the tasks of a launch starts, all on the calling thread."""
    tasks, target = len(cores), resolve("llvm")
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("cores")
        starts = T.arg("cores", T.buffer((tasks,), "int32", layout=None))
        claims = CoreClaims(target)
        T.buffer_store(starts, T.call_extern("int32", "sched_getcpu"), [0])
        source = tvm.ir.StringImm(claims_source(target))
        with T.attr(0, "pragma_import_llvm", source), claims.before_launch():
            for task in range(1, tasks):
                claims.at_start(tvm.tirx.const(task, "int32"))
                T.buffer_store(starts, T.call_extern("int32", "sched_getcpu"), [task])
            claims.at_start(tvm.tirx.const(0, "int32"))  # last: it may change its core
    result = tvm.runtime.tensor(cores)
    build_functions({"cores": builder.get()}, target).mod["cores"](result)
    cores[:] = result.numpy()


def starts(tasks: int, allowed: Sequence[int]) -> tuple[list[int], set[int]]:
    """Where tasks start, and where their thread may run afterwards."""
    cores = np.full(tasks, -1, "int32")

    def run() -> set[int]:
        os.sched_setaffinity(0, allowed)
        launch(cores)
        return os.sched_getaffinity(0)

    affinity = in_thread(run)
    return cores.tolist(), affinity


def in_thread(work: Callable[[], set[int]]) -> set[int]:
    results: list[set[int]] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    return results[0]


@pytest.mark.skipif(len(CORES) < 2, reason="takes two cores")
def test_a_task_leaves_a_claimed_core() -> None:
    (caller, worker), affinity = starts(2, CORES[:2])
    assert {caller, worker} == set(CORES[:2])
    assert affinity == set(CORES[:2])


@pytest.mark.parametrize("core", CORES[:2])
def test_more_tasks_than_cores_share_them(core: int) -> None:
    assert starts(3, [core]) == ([core] * 3, {core})


def test_other_systems_are_left_alone() -> None:
    target = tvm.target.Target({"kind": "llvm", "mtriple": "arm64-apple-macos"})
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("nothing")
        claims = CoreClaims(target)
        with claims.before_launch():
            claims.at_start(tvm.tirx.const(1, "int32"))
            T.evaluate(tvm.tirx.const(0, "int32"))
    assert "call_extern" not in builder.get().script()
